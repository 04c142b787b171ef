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

/// The result of a request, in the crate's types.
pub(crate) type Answered<T> = Result<T, object_store::Error>;

/// A client of a store.
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) prefix: Key,
}

/// Whether the address belongs to a vendor whose client this build leaves out.
pub(crate) fn is_left_out(url: &Url) -> bool {
    use ObjectStoreScheme::{AmazonS3, GoogleCloudStorage, MicrosoftAzure};
    let scheme = ObjectStoreScheme::parse(url);
    cfg!(not(feature = "object-stores"))
        && matches!(scheme, Ok((AmazonS3 | GoogleCloudStorage | MicrosoftAzure, _)))
}

/// The client of a vendor, or the crate's client for another address.
pub(crate) fn client_of(url: &Url, settings: Vec<(String, String)>) -> Answered<Client> {
    #[cfg(feature = "object-stores")]
    if let Some(client) = of_vendor(url, &settings)? {
        return Ok(client);
    }
    let (objects, prefix) = object_store::parse_url_opts(url, settings)?;
    Ok(Client { objects: Arc::from(objects), pages: None, prefix })
}

/// The client of a vendor's store. The crate's own constructor hides the client's ability to list page by page.
#[cfg(feature = "object-stores")]
fn of_vendor(url: &Url, settings: &[(String, String)]) -> Answered<Option<Client>> {
    macro_rules! client {
        ($builder:ty, $prefix:expr) => {{
            let builder = <$builder>::new().with_url(url.as_str());
            let builder =
                settings.iter().cloned().fold(builder, |builder, (name, value)| match name.parse() {
                    Ok(name) => builder.with_config(name, value),
                    // A setting that belongs to another vendor.
                    Err(_) => builder,
                });
            let client = Arc::new(builder.build()?);
            Client { objects: Arc::clone(&client) as _, pages: Some(client), prefix: $prefix }
        }};
    }
    let (scheme, prefix) = ObjectStoreScheme::parse(url)?;
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => Some(client!(AmazonS3Builder, prefix)),
        ObjectStoreScheme::GoogleCloudStorage => Some(client!(GoogleCloudStorageBuilder, prefix)),
        ObjectStoreScheme::MicrosoftAzure => Some(client!(MicrosoftAzureBuilder, prefix)),
        _ => None,
    })
}
