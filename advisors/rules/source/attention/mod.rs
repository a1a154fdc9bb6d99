//! Rules on attention: FlexAttention, scaled_dot_product_attention, attention by hand.

pub mod attention_on_torch_xla;
mod by_hand;
pub mod expanded_heads;
pub mod explicit_causal_mask;
mod flex;
pub mod flex_attention;
pub mod flex_attention_setting;
pub mod hand_written_attention;

#[cfg(test)]
mod tests;
