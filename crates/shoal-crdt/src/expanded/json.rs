//! The JSON of an [`ExpandedChange`]: ids as `counter@actor`, bytes of ids and hashes in
//! hexadecimal, numbers with a `datatype` beside them.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use shoal_history::{ActorId, ChangeHash, Scalar};

use super::{ExpandedChange, ExpandedKey, ExpandedOp, OpType};
use crate::id::ObjId;
use crate::json::serialize_scalar;
use crate::value::ObjType;

impl Serialize for ExpandedChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("ops", &self.operations)?;
        map.serialize_entry("actor", &self.actor_id.to_hex())?;
        if let Some(hash) = self.hash {
            map.serialize_entry("hash", &hash.to_string())?;
        }
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("startOp", &self.start_op)?;
        map.serialize_entry("time", &self.time)?;
        map.serialize_entry("message", &self.message)?;
        let deps: Vec<String> = self.deps.iter().map(ToString::to_string).collect();
        map.serialize_entry("deps", &deps)?;
        if !self.extra_bytes.is_empty() {
            map.serialize_entry("extra_bytes", &self.extra_bytes)?;
        }
        if let Some(author) = &self.author {
            map.serialize_entry("author", &ActorId::new(author).to_hex())?;
        }
        map.end()
    }
}

impl Serialize for ExpandedOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("action", action_name(&self.action))?;
        map.serialize_entry("obj", &self.obj.to_string())?;
        match &self.key {
            ExpandedKey::Map(key) => map.serialize_entry("key", key)?,
            ExpandedKey::Head => map.serialize_entry("elemId", HEAD)?,
            ExpandedKey::Elem(elem) => map.serialize_entry("elemId", &elem.to_string())?,
        }
        if self.insert {
            map.serialize_entry("insert", &true)?;
        }
        match &self.action {
            OpType::Make(_) | OpType::Delete => {}
            OpType::Increment(by) => map.serialize_entry("value", by)?,
            OpType::Put(value) => serialize_value(&mut map, value)?,
            OpType::MarkBegin { name, value, expand } => {
                map.serialize_entry("name", name)?;
                serialize_value(&mut map, value)?;
                map.serialize_entry("expand", expand)?;
            }
            OpType::MarkEnd(expand) => map.serialize_entry("expand", expand)?,
        }
        let pred: Vec<String> = self.pred.iter().map(ToString::to_string).collect();
        map.serialize_entry("pred", &pred)?;
        map.end()
    }
}

/// Writes the entries of a value and its type.
fn serialize_value<M: SerializeMap>(map: &mut M, value: &Scalar) -> Result<(), M::Error> {
    let datatype = match value {
        Scalar::Counter(_) => Some("counter"),
        Scalar::Timestamp(_) => Some("timestamp"),
        Scalar::Int(_) => Some("int"),
        Scalar::Uint(_) => Some("uint"),
        Scalar::F64(_) => Some("float64"),
        _ => None,
    };
    if let Some(datatype) = datatype {
        map.serialize_entry("datatype", datatype)?;
    }
    match value {
        Scalar::F64(value) if !value.is_finite() => {
            map.serialize_entry("value", &value.to_string())
        }
        value => map.serialize_entry("value", &Plain(value)),
    }
}

/// A scalar without its type.
struct Plain<'a>(&'a Scalar);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_scalar(self.0.as_ref(), serializer)
    }
}

const HEAD: &str = "_head";

fn action_name(action: &OpType) -> &'static str {
    match action {
        OpType::Make(ObjType::Map) => "makeMap",
        OpType::Make(ObjType::Table) => "makeTable",
        OpType::Make(ObjType::List) => "makeList",
        OpType::Make(ObjType::Text) => "makeText",
        OpType::Delete => "del",
        OpType::Increment(_) => "inc",
        OpType::Put(_) => "set",
        OpType::MarkBegin { .. } => "markBegin",
        OpType::MarkEnd(_) => "markEnd",
    }
}

/// The raw entries of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    ops: Vec<ExpandedOp>,
    actor: String,
    #[serde(default)]
    hash: Option<String>,
    seq: u32,
    #[serde(rename = "startOp")]
    start_op: u32,
    time: i64,
    #[serde(default)]
    message: Option<String>,
    deps: Vec<String>,
    #[serde(default)]
    extra_bytes: Vec<u8>,
    #[serde(default)]
    author: Option<String>,
}

impl<'de> Deserialize<'de> for ExpandedChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawChange::deserialize(deserializer)?;
        let actor = |text: &str| ActorId::from_hex(text).map_err(D::Error::custom);
        let hash = |text: &String| {
            let hash = ChangeHash::from_hex(text);
            hash.ok_or_else(|| D::Error::custom(format_args!("not the hash of a change: {text}")))
        };
        let author = raw.author.as_deref().map(actor).transpose()?;
        Ok(Self {
            operations: raw.ops,
            actor_id: actor(&raw.actor)?,
            hash: raw.hash.as_ref().map(hash).transpose()?,
            seq: raw.seq,
            start_op: raw.start_op,
            time: raw.time,
            message: raw.message,
            deps: raw.deps.iter().map(hash).collect::<Result<_, _>>()?,
            extra_bytes: raw.extra_bytes,
            author: author.map(|author| author.as_bytes().to_vec()),
        })
    }
}

/// The raw entries of an op.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOp {
    action: String,
    obj: String,
    #[serde(default)]
    key: Option<String>,
    #[serde(default, rename = "elemId")]
    elem: Option<String>,
    #[serde(default)]
    insert: bool,
    #[serde(default)]
    datatype: Option<String>,
    #[serde(default)]
    value: Option<Json>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    expand: bool,
    pred: Vec<String>,
}

impl<'de> Deserialize<'de> for ExpandedOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawOp::deserialize(deserializer)?.op().map_err(D::Error::custom)
    }
}

impl RawOp {
    fn op(self) -> Result<ExpandedOp, String> {
        let id = |text: &String| text.parse::<ObjId>().map_err(|error| error.to_string());
        let key = match (self.key, &self.elem) {
            (Some(key), None) => ExpandedKey::Map(key),
            (None, Some(elem)) if elem == HEAD => ExpandedKey::Head,
            (None, Some(elem)) => ExpandedKey::Elem(id(elem)?),
            _ => return Err("an op has either a key or an elemId".to_owned()),
        };
        let datatype = self.datatype.as_deref();
        let value = self.value.unwrap_or(Json::Null);
        let action = match self.action.as_str() {
            "makeMap" => OpType::Make(ObjType::Map),
            "makeTable" => OpType::Make(ObjType::Table),
            "makeList" => OpType::Make(ObjType::List),
            "makeText" => OpType::Make(ObjType::Text),
            "del" => OpType::Delete,
            "inc" => OpType::Increment(
                value.as_i64().ok_or_else(|| format!("an increment is an integer: {value}"))?,
            ),
            "set" => OpType::Put(scalar(value, datatype)?),
            "markBegin" => OpType::MarkBegin {
                name: self.name.ok_or("a mark that begins has a name")?,
                value: scalar(value, datatype)?,
                expand: self.expand,
            },
            "markEnd" => OpType::MarkEnd(self.expand),
            other => return Err(format!("no such action: {other}")),
        };
        Ok(ExpandedOp {
            action,
            obj: id(&self.obj)?,
            key,
            insert: self.insert,
            pred: self.pred.iter().map(id).collect::<Result<_, _>>()?,
        })
    }
}

/// The scalar of a value and its type.
fn scalar(value: Json, datatype: Option<&str>) -> Result<Scalar, String> {
    let wrong = |value: &Json| format!("a value does not fit its datatype: {value}");
    Ok(match (datatype, &value) {
        (Some("counter"), _) => Scalar::Counter(value.as_i64().ok_or_else(|| wrong(&value))?),
        (Some("timestamp"), _) => Scalar::Timestamp(value.as_i64().ok_or_else(|| wrong(&value))?),
        (Some("int"), _) => Scalar::Int(value.as_i64().ok_or_else(|| wrong(&value))?),
        (Some("uint"), _) => Scalar::Uint(value.as_u64().ok_or_else(|| wrong(&value))?),
        (Some("float64"), Json::String(text)) => {
            let float = text.parse::<f64>().ok().filter(|float| !float.is_finite());
            Scalar::F64(float.ok_or_else(|| wrong(&value))?)
        }
        (Some("float64"), _) => Scalar::F64(value.as_f64().ok_or_else(|| wrong(&value))?),
        (None | Some("bytes"), Json::Array(items)) => Scalar::Bytes(bytes(items)?.into()),
        (Some("bytes"), _) => return Err(wrong(&value)),
        (None | Some("undefined"), _) => match value {
            Json::Null => Scalar::Null,
            Json::Bool(value) => Scalar::Boolean(value),
            Json::String(text) => Scalar::Str(text.into()),
            // As the reference reads them.
            Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => Scalar::Uint(value),
                (None, Some(value), _) => Scalar::Int(value),
                (None, None, float) => Scalar::F64(float.unwrap_or(f64::NAN)),
            },
            Json::Object(entries) => unknown(&entries)?,
            Json::Array(items) => Scalar::Bytes(bytes(&items)?.into()),
        },
        (Some(other), _) => return Err(format!("no such datatype: {other}")),
    })
}

fn bytes(items: &[Json]) -> Result<Vec<u8>, String> {
    let byte = |item: &Json| item.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let bytes = items.iter().map(byte).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| "bytes are numbers from 0 to 255".to_owned())
}

/// A value of an unknown type: code and payload.
fn unknown(entries: &serde_json::Map<String, Json>) -> Result<Scalar, String> {
    let code = entries.get("type_code").and_then(Json::as_u64);
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| (10..16).contains(code));
    match (code, entries.get("bytes").and_then(Json::as_array), entries.len()) {
        (Some(type_code), Some(items), 2) => {
            Ok(Scalar::Unknown { type_code, bytes: bytes(items)?.into() })
        }
        _ => Err("an object is a value only as {type_code, bytes}".to_owned()),
    }
}
