//! How a type becomes bytes: a trait, and macros that make it from a list of fields.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::Malformed;
use super::reader::Reader;
use super::writer::Writer;
use crate::ids::{
    Actor, Boot, CallId, ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, Namespace,
    NodeId, PublicKey, Revision, Seq, Token, Value,
};

/// What can be written and read again. A value takes at least one byte.
pub(super) trait Wire: Sized {
    fn put(&self, to: &mut Writer<'_>);
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A struct: its fields in the order of the list. Those behind the semicolon are not written,
/// because they follow from the rest.
macro_rules! wire_struct {
    ($name:ident { $($field:ident: $type:ty),+ $(,)? $(; $($derived:ident),+)? }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Writer<'_>) {
                $(<$type as Wire>::put(&self.$field, to);)+
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                $(let $field = <$type as Wire>::take(from)?;)+
                Ok($name { $($field,)+ $($($derived: Default::default(),)+)? })
            }
        }
    };
}

/// An enum: one byte for the variant, then its fields.
macro_rules! wire_enum {
    ($name:ident {
        $($tag:literal => $variant:ident
            $(($($item:ident: $item_type:ty),+))?
            $({ $($field:ident: $field_type:ty),+ })?
        ),+ $(,)?
    }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Writer<'_>) {
                match self {
                    $($name::$variant $(($($item),+))? $({ $($field),+ })? => {
                        to.u8($tag);
                        $($(<$item_type as Wire>::put($item, to);)+)?
                        $($(<$field_type as Wire>::put($field, to);)+)?
                    })+
                }
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                match from.u8()? {
                    $($tag => {
                        $($(let $item = <$item_type as Wire>::take(from)?;)+)?
                        $($(let $field = <$field_type as Wire>::take(from)?;)+)?
                        Ok($name::$variant $(($($item),+))? $({ $($field),+ })?)
                    })+
                    _ => Err(from.malformed(concat!("unknown kind of ", stringify!($name)))),
                }
            }
        }
    };
}

pub(super) use {wire_enum, wire_struct};

/// Types that are one of the basic shapes inside.
macro_rules! wire_number {
    ($($name:ident: $inner:ty),+ $(,)?) => {
        $(impl Wire for $name {
            fn put(&self, to: &mut Writer<'_>) {
                self.0.put(to);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                <$inner>::take(from).map($name)
            }
        })+
    };
}

wire_number! {
    Millis: u64, Revision: u64, Token: u64, LeaseId: i64, Epoch: u64, Seq: u64, NodeId: u64,
    Boot: u64,
}

wire_struct!(CallId { node: NodeId, boot: Boot, number: u64 });

impl Wire for LogTime {
    /// One more than it is, so that the moment that never comes is a single zero byte: many
    /// contenders have it.
    fn put(&self, to: &mut Writer<'_>) {
        to.varint(self.0.wrapping_add(1));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(LogTime(from.varint()?.wrapping_sub(1)))
    }
}

impl Wire for PublicKey {
    /// Always as long, so no length stands before it.
    fn put(&self, to: &mut Writer<'_>) {
        to.raw(&self.0);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut key = PublicKey::default();
        let bytes = from.raw(key.0.len())?;
        key.0.copy_from_slice(bytes);
        Ok(key)
    }
}

macro_rules! wire_text {
    ($($name:ident),+) => {
        $(impl Wire for $name {
            fn put(&self, to: &mut Writer<'_>) {
                to.bytes(self.as_str().as_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.text().map($name::from)
            }
        })+
    };
}

wire_text!(Actor, ClientId, Namespace, String);

macro_rules! wire_bytes {
    ($($name:ident),+) => {
        $(impl Wire for $name {
            fn put(&self, to: &mut Writer<'_>) {
                to.bytes(self);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.bytes().map($name::from)
            }
        })+
    };
}

wire_bytes!(Key, LockName, Value);

impl Wire for bool {
    fn put(&self, to: &mut Writer<'_>) {
        to.bool(*self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.bool()
    }
}

impl Wire for u32 {
    fn put(&self, to: &mut Writer<'_>) {
        to.varint(u64::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.u32()
    }
}

impl Wire for u64 {
    fn put(&self, to: &mut Writer<'_>) {
        to.varint(*self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.varint()
    }
}

impl Wire for i64 {
    fn put(&self, to: &mut Writer<'_>) {
        to.zigzag(*self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.zigzag()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, to: &mut Writer<'_>) {
        T::put(self, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::take(from).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, to: &mut Writer<'_>) {
        T::put(self, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::take(from).map(Arc::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Writer<'_>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn put(&self, to: &mut Writer<'_>) {
        self.0.put(to);
        self.1.put(to);
        self.2.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Writer<'_>) {
        to.bool(self.is_some());
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.bool()? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        for item in self {
            item.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count()?;
        let mut items = Vec::with_capacity(from.room(count, size_of::<T>()));
        for _ in 0..count {
            items.push(T::take(from)?);
        }
        Ok(items)
    }
}

impl<T: Wire> Wire for VecDeque<T> {
    fn put(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        for item in self {
            item.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Vec::take(from).map(VecDeque::from)
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        for (key, value) in self {
            key.put(to);
            value.put(to);
            to.drain();
        }
    }

    /// The keys must ascend: a map has one spelling, and is built from sorted pairs in one go.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count()?;
        // Maps are large and lie in no other map, so a good guess is worth a little trust.
        let size = size_of::<(K, V)>() / 8;
        let mut pairs: Vec<(K, V)> = Vec::with_capacity(from.room(count, size));
        for _ in 0..count {
            let pair = <(K, V)>::take(from)?;
            if pairs.last().is_some_and(|last| last.0 >= pair.0) {
                return Err(from.malformed("keys out of order"));
            }
            pairs.push(pair);
        }
        Ok(BTreeMap::from_iter(pairs))
    }
}
