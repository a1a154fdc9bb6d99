//! Reading JSON objects key by key, so that no value of an unexpected type is an error.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What is built from the keys of a JSON object.
pub(in crate::timeline) trait FromKeys<'de>: Default {
    /// Takes the value of `key` from `map`, which must be asked for exactly one value.
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Reads a `T` from an object, and the default from anything else.
#[derive(Debug, Default)]
pub(in crate::timeline) struct Lenient<T>(pub(in crate::timeline) T);

/// A string; a number as text; empty for anything else.
#[derive(Debug, Default)]
pub(in crate::timeline) struct Text<'a>(pub(in crate::timeline) Cow<'a, str>);

/// `pid` or `tid`: Kineto writes words in some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::timeline) enum Id<'a> {
    /// No id, or a value that cannot be one.
    #[default]
    Absent,
    /// A number.
    Number(i64),
    /// A word.
    Text(Cow<'a, str>),
}

impl Id<'_> {
    /// The id without what it borrows.
    pub(in crate::timeline) fn into_owned(self) -> Id<'static> {
        match self {
            Self::Absent => Id::Absent,
            Self::Number(number) => Id::Number(number),
            Self::Text(text) => Id::Text(Cow::Owned(text.into_owned())),
        }
    }
}

impl<'de, T: FromKeys<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Id<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

/// What each kind of JSON value becomes; the default unless said otherwise.
trait FromAny<'de>: Default {
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn from_text(_: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn from_signed(_: i64) -> Self {
        Self::default()
    }
    fn from_unsigned(_: u64) -> Self {
        Self::default()
    }
    fn from_float(_: f64) -> Self {
        Self::default()
    }
}

impl<'de, T: FromKeys<'de>> FromAny<'de> for Lenient<T> {
    #[inline]
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut value = T::default();
        while let Some(Key(key)) = map.next_key()? {
            value.take(&key, &mut map)?;
        }
        Ok(Self(value))
    }
}

impl<'de> FromAny<'de> for Text<'de> {
    #[inline]
    fn from_text(text: Cow<'de, str>) -> Self {
        Self(text)
    }
    fn from_signed(value: i64) -> Self {
        Self(value.to_string().into())
    }
    fn from_unsigned(value: u64) -> Self {
        Self(value.to_string().into())
    }
    fn from_float(value: f64) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> FromAny<'de> for Id<'de> {
    fn from_text(text: Cow<'de, str>) -> Self {
        Self::Text(text)
    }
    #[inline]
    fn from_signed(value: i64) -> Self {
        Self::Number(value)
    }
    #[inline]
    fn from_unsigned(value: u64) -> Self {
        Self::Number(value.cast_signed())
    }
    fn from_float(value: f64) -> Self {
        Self::Number(value as i64)
    }
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: FromAny<'de>> Visitor<'de> for AnyValue<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_map(map)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }
    #[inline]
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T, E> {
        Ok(T::from_text(Cow::Borrowed(text)))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from_text(Cow::Owned(text.to_owned())))
    }
    #[inline]
    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(T::from_signed(value))
    }
    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        Ok(T::from_unsigned(value))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        Ok(T::from_float(value))
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// A key of an object.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(key) = deserializer.deserialize_str(AnyValue(PhantomData))?;
        Ok(Self(key))
    }
}
