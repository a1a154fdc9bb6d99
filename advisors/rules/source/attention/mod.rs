//! Rules on attention: FlexAttention, scaled_dot_product_attention, attention by hand.

mod flex;
pub mod flex_attention;
