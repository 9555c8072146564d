//! Errors of sealed stores, as guests are told of them: whose key is not theirs to give, they may not open; what is forged is damage.

use pipkin::Error;

/// True if the host has not given the key of the store.
pub fn is_locked_up(error: &Error) -> bool {
    #[cfg(feature = "encrypt")]
    return matches!(error, Error::KeyNeeded | Error::WrongKey | Error::NotSealed | Error::DisablingEncryption);
    #[cfg(not(feature = "encrypt"))]
    {
        let _ = error;
        false
    }
}

/// Where the file was changed by somebody without the key.
pub fn forged_at(error: &Error) -> Option<u64> {
    #[cfg(feature = "encrypt")]
    return match error {
        Error::Forged { offset, .. } => Some(*offset),
        Error::RolledBack => Some(0),
        _ => None,
    };
    #[cfg(not(feature = "encrypt"))]
    {
        let _ = error;
        None
    }
}
