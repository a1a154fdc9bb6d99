//! Rules on attention: FlexAttention, scaled_dot_product_attention, attention by hand.

pub mod flex_attention;
mod flex;
