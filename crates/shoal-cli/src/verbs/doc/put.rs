//! `shoal doc put`: the value at a path.

use shoal_crdt::ReadDoc;
use shoal_crdt::pointer::{self, Resolved};

use crate::args::PutArgs;
use crate::document::edit::{edit, json};
use crate::failure::Failure;

pub(crate) fn run(args: &PutArgs) -> Result<(), Failure> {
    let value = json("VALUE", &args.value)?;
    edit(&args.doc, &args.edit, |transaction, place| {
        let resolved = pointer::resolve(&*transaction, &args.path)
            .map_err(|error| Failure::at(place, error))?;
        let put = match &resolved {
            Resolved::Root => {
                return Err(Failure::at(place, "the root cannot be replaced")
                    .hint("a path such as /title names a value"));
            }
            Resolved::Entry { obj, key } => transaction.put_json(obj, key.as_str(), &value),
            Resolved::Item { obj, index } => {
                let index = *index;
                if transaction.length(obj) == Ok(index) {
                    transaction.insert_json(obj, index, &value)
                } else {
                    transaction.put_json(obj, index, &value)
                }
            }
        };
        put.map_err(|error| Failure::at(place, error))
    })?;
    Ok(())
}
