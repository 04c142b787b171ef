//! From an address to a client of its store.

use std::sync::Arc;

#[cfg(feature = "object-stores")]
use object_store::aws::AmazonS3Builder;
#[cfg(feature = "object-stores")]
use object_store::azure::MicrosoftAzureBuilder;
#[cfg(feature = "object-stores")]
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

/// What came of a question, in the crate's words.
pub(crate) type Answered<T> = Result<T, object_store::Error>;

/// A way to a store.
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) prefix: Key,
}

/// A client of a vendor, or what the crate has for another address. The crate's own way from an address to a client hides that those of vendors
/// can list page by page.
pub(crate) fn client_of(url: &Url, settings: Vec<(String, String)>) -> Answered<Client> {
    #[cfg(feature = "object-stores")]
    macro_rules! of_vendor {
        ($builder:ty, $prefix:expr) => {{
            let builder = <$builder>::new().with_url(url.as_str());
            let builder = settings.into_iter().fold(builder, |builder, (name, value)| match name.parse() {
                Ok(name) => builder.with_config(name, value),
                // A setting of another vendor's.
                Err(_) => builder,
            });
            let client = Arc::new(builder.build()?);
            Client { objects: Arc::clone(&client) as _, pages: Some(client), prefix: $prefix }
        }};
    }
    #[cfg_attr(not(feature = "object-stores"), expect(unused_variables, reason = "only vendors have one"))]
    let (scheme, prefix) = ObjectStoreScheme::parse(url)?;
    Ok(match scheme {
        #[cfg(feature = "object-stores")]
        ObjectStoreScheme::AmazonS3 => of_vendor!(AmazonS3Builder, prefix),
        #[cfg(feature = "object-stores")]
        ObjectStoreScheme::GoogleCloudStorage => of_vendor!(GoogleCloudStorageBuilder, prefix),
        #[cfg(feature = "object-stores")]
        ObjectStoreScheme::MicrosoftAzure => of_vendor!(MicrosoftAzureBuilder, prefix),
        #[cfg(not(feature = "object-stores"))]
        ObjectStoreScheme::AmazonS3
        | ObjectStoreScheme::GoogleCloudStorage
        | ObjectStoreScheme::MicrosoftAzure => {
            let problem = "this build of hone leaves out object stores. Build it with `cargo build --release -p hone`, \
                           without --no-default-features";
            return Err(object_store::Error::Generic { store: "hone", source: problem.into() });
        }
        _ => {
            let (objects, prefix) = object_store::parse_url_opts(url, settings)?;
            Client { objects: Arc::from(objects), pages: None, prefix }
        }
    })
}
