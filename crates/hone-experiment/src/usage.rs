//! Recognises usage errors.

use hone_format::FileError;

use crate::ending::Usage;

/// Whether an error is about the user's request, and not about an event: exit code 2.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || cause.is::<FileError>()
            || cause.is::<hone_compare::DesignError>()
            || matches!(cause.downcast_ref(), Some(hone_load::LoadError::Setting { .. }))
            || matches!(cause.downcast_ref(), Some(hone_host::setting::SettingError::Elsewhere { .. }))
    })
}
