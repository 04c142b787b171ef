//! Prices of traffic and cores, in a file of the user's.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_batch::zones::Prices;
use hone_format::FileError;
use hone_record::CorePrice;

use hone_experiment::ending::Usage;

/// Reads the prices of a file.
///
/// # Errors
/// When the file can't be read, or a price is invalid.
pub fn read(path: &Path) -> Result<Prices> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the prices {} can't be read", path.display()))?;
    let prices: Prices =
        toml::from_str(&text).map_err(|error| Usage(FileError::of_toml(&error, &text, path).to_string()))?;
    let is_price = |price: f64| price.is_finite() && price >= 0.0;
    if !is_price(prices.crossing_per_gb) || !is_price(prices.core_per_month) {
        bail!(Usage(format!("{}: invalid price: use a number that is not negative", path.display())));
    }
    Ok(prices)
}

/// The price of a core: of the user's file, or the list price.
///
/// # Errors
/// See [`read`].
pub fn core(path: Option<&Path>) -> Result<CorePrice> {
    let Prices { source, dated, currency, core_per_month, .. } =
        path.map_or_else(|| Ok(Prices::usual()), read)?;
    Ok(CorePrice { per_month: core_per_month, currency, source: format!("{source}, {dated}") })
}

/// Writes the list prices to a new file.
///
/// # Errors
/// When the file exists, or can't be written.
pub fn write(path: &Path) -> Result<()> {
    let text = toml::to_string(&Prices::usual()).context("the prices can't be written as TOML")?;
    let mut file = std::fs::File::create_new(path).with_context(|| {
        format!("{} can't be made\n  next: name a file that does not exist yet", path.display())
    })?;
    write!(file, "# Prices for `hone cost --prices`. A GB has 10^9 bytes, a month 30 days.\n{text}")
        .with_context(|| format!("{} can't be written", path.display()))
}
