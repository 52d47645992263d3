//! The values of EDN.

/// One value. Equal values are equal forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    Nil,
    Bool(bool),
    Integer(i64),
    /// Does not fit 64 bits; decimal digits, with `-` if negative.
    BigInteger(Box<str>),
    /// The bits of a double, those of -0.0 being those of 0.0.
    Float(u64),
    Ratio(Box<str>),
    Decimal(Box<str>),
    Text(Box<str>),
    Character(char),
    /// Without its colon.
    Keyword(Box<str>),
    Symbol(Box<str>),
    List(Vec<Form>),
    Vector(Vec<Form>),
    Set(Vec<Form>),
    Map(Vec<(Form, Form)>),
    Tagged(Box<str>, Box<Form>),
}

/// A name in a message, without its end if it is long.
pub fn cut(text: &str) -> String {
    if text.chars().count() > 40 { format!("{}...", text.chars().take(40).collect::<String>()) } else { text.into() }
}

/// The form in a message: scalars as EDN has them, others by their kind.
pub fn shown(form: &Form) -> String {
    match form {
        Form::Nil => "nil".into(),
        Form::Bool(value) => value.to_string(),
        Form::Integer(value) => value.to_string(),
        Form::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
        Form::BigInteger(text) | Form::Ratio(text) | Form::Decimal(text) | Form::Symbol(text) => cut(text),
        Form::Text(text) => format!("{:?}", cut(text)),
        Form::Character(character) => format!("\\{character}"),
        Form::Keyword(name) => format!(":{}", cut(name)),
        Form::List(_) => "a list".into(),
        Form::Vector(_) => "a vector".into(),
        Form::Set(_) => "a set".into(),
        Form::Map(_) => "a map".into(),
        Form::Tagged(tag, _) => format!("a #{}", cut(tag)),
    }
}
