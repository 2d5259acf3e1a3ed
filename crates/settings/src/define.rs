//! Macros for the schema, which keep a struct's fields, comments, defaults and limits in one place.
//!
//! Comments serve rustdoc and the operator alike. The macros therefore keep the comments as data
//! beside the types:
//!
//! ```text
//! section! {                      every field has a default; the struct implements Default
//!     /// About the section.
//!     pub struct Cache {
//!         /// About the field.
//!         #[takes_effect(restart)]            or the next reload, when it is not said
//!         #[limits(ByteCount::mib(4)..=ByteCount(1 << 50))]
//!         pub ram: ByteCount = ByteCount::mib(256),
//!     }
//! }
//! entry! { … }                    as before, but fields without a default must be set;
//!                                 `example { … }` at its end is what the sample file shows
//! choice! { … }                   one of several words
//! ```

/// Defines a struct of settings, each with a default.
macro_rules! section {
    (
        $(#[$($about:tt)*])*
        pub struct $name:ident {
            $($(#[$($attribute:tt)*])* pub $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        entry! {
            $(#[$($about)*])*
            pub struct $name {
                $($(#[$($attribute)*])* pub $field: $type = $default,)*
            }
            example { Self::default() }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

/// Defines a struct of settings, some of them required.
macro_rules! entry {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $text:literal])*
                $(#[takes_effect($restart:ident)])?
                $(#[limits($limits:expr)])?
                pub $field:ident: $type:ty $(= $default:expr)?,
            )*
        }
        example { $example:expr }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = $text])*
                $(#[doc = concat!("\nFrom and to: `", stringify!($limits), "`.")])?
                pub $field: $type,
            )*
        }

        impl $crate::setting::Section for $name {
            fn outline() -> Vec<$crate::setting::Field> {
                vec![$($crate::setting::Field {
                    name: stringify!($field),
                    text: concat!($($text, "\n",)*),
                    kind: <$type as $crate::setting::Setting>::kind(),
                    default: {
                        let default: Option<fn() -> $type> = default_of!($type $(= $default)?);
                        default.map(|default| $crate::setting::Setting::write(&default()))
                    },
                    limits: limits_of!($type $(, $limits)?),
                    needs_restart: needs_restart!($($restart)?),
                },)*]
            }

            fn read_fields(fields: &mut $crate::setting::Fields<'_>) -> Option<Self> {
                fields.refuse_others(&[$(stringify!($field),)*]);
                $(
                    let $field = fields.field::<$type>(
                        stringify!($field),
                        default_of!($type $(= $default)?),
                        check_of!($type $(, $limits)?),
                    );
                )*
                // The struct is built last, so that every field has been read and checked.
                Some(Self { $($field: $field?,)* })
            }

            fn write_fields(&self) -> Vec<(&'static str, $crate::setting::TomlText)> {
                vec![$((stringify!($field), $crate::setting::Setting::write(&self.$field)),)*]
            }

            fn example() -> Self {
                $example
            }
        }

        impl $crate::setting::Setting for $name {
            fn kind() -> $crate::setting::SettingKind {
                use $crate::setting::{SettingKind, Section};
                SettingKind::Section { outline: Self::outline, example: || Self::example().write() }
            }

            fn read(
                node: &$crate::tree::Node,
                key: &str,
                mistakes: &mut $crate::mistake::Mistakes,
            ) -> Option<Self> {
                $crate::setting::read_section(node, key, mistakes)
            }

            fn write(&self) -> $crate::setting::TomlText {
                $crate::setting::TomlText::Section($crate::setting::Section::write_fields(self))
            }

            fn keep_until_restart(&mut self, old: &Self, key: &str, waiting: &mut Vec<String>) {
                $({
                    let key = $crate::setting::join(key, stringify!($field));
                    if !needs_restart!($($restart)?) {
                        $crate::setting::Setting::keep_until_restart(
                            &mut self.$field, &old.$field, &key, waiting,
                        );
                    } else if self.$field != old.$field {
                        self.$field.clone_from(&old.$field);
                        waiting.push(key);
                    }
                })*
            }
        }
    };
}

/// Defines a setting that is one of several words.
macro_rules! choice {
    (
        $(#[doc = $about:literal])*
        pub enum $name:ident {
            $($(#[doc = $text:literal])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $text])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the word for this value in the file.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::setting::Setting for $name {
            fn kind() -> $crate::setting::SettingKind {
                $crate::setting::SettingKind::Choice(&[$(($word, concat!($($text, "\n",)*)),)*])
            }

            fn read(
                node: &$crate::tree::Node,
                key: &str,
                mistakes: &mut $crate::mistake::Mistakes,
            ) -> Option<Self> {
                let word = <String as $crate::setting::Setting>::read(node, key, mistakes)?;
                let found = Self::ALL.iter().find(|choice| choice.name() == word);
                if found.is_none() {
                    $crate::setting::refuse_word(node, key, &word, &[$($word,)*], mistakes);
                }
                found.copied()
            }

            fn write(&self) -> $crate::setting::TomlText {
                $crate::setting::quoted(self.name())
            }
        }
    };
}

macro_rules! default_of {
    ($type:ty) => {
        None
    };
    ($type:ty = $default:expr) => {
        Some(|| $default)
    };
}

macro_rules! needs_restart {
    () => {
        false
    };
    (restart) => {
        true
    };
}

macro_rules! limits_of {
    ($type:ty) => {
        None
    };
    ($type:ty, $limits:expr) => {
        Some($crate::setting::describe_limits::<$type>(&($limits)))
    };
}

macro_rules! check_of {
    ($type:ty) => {
        None
    };
    ($type:ty, $limits:expr) => {
        Some(&|value: &$type| $crate::setting::check_limits(value, &($limits)))
    };
}
