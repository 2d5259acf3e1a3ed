//! One order: account, challenges, request for a certificate, and the check of the answer.

use super::folder::Folder;
use super::http::{AuthorityClient, tidy};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType,
    Error, ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, Der, PrivatePkcs8KeyDer};
use serde_json::Value;
use shoal_acme::{CertificateFacts, Challenges, Failure, TlsAnswer, Window};
use shoal_settings::{Acme, AcmeChallenge};
use std::time::Duration;
use webpki::EndEntityCert;

/// The way to an authority.
pub(super) struct Authority<'a> {
    pub acme: &'a Acme,
    pub client: &'a AuthorityClient,
    pub challenges: &'a Challenges,
}

/// Certificate that the authority has signed, and that has been checked.
pub(super) struct NewCertificate {
    /// Key and chain, PEM.
    pub pem: String,
    /// Dates and numbers of the certificate.
    pub facts: CertificateFacts,
}

/// Reason for which there is no certificate.
#[derive(Debug)]
pub(super) struct OrderError {
    /// Reason, in a line.
    pub why: String,
    /// Kind of the failure.
    pub failure: Failure,
    /// `true` if the authority does not know the account.
    pub is_account_gone: bool,
}

impl Authority<'_> {
    /// Orders a certificate for these names. `replaced` is the earlier certificate, if the
    /// authority is to know of it. No challenge is open afterwards.
    pub async fn order(
        &self,
        folder: &Folder,
        names: &[String],
        replaced: Option<&CertificateFacts>,
        now: u64,
    ) -> Result<NewCertificate, OrderError> {
        self.client.allow(REQUESTS + names.len() as u32 * REQUESTS_OF_NAME);
        let ordered = tokio::time::timeout(ORDER_MAX, self.order_within(folder, names, replaced)).await;
        self.challenges.close();
        let late = || Err(OrderError::refused("the order took too long".into()));
        let (chain, key) = ordered.unwrap_or_else(|_| late())?;
        check(&chain, &key, names, now).map_err(OrderError::refused)
    }

    async fn order_within(
        &self,
        folder: &Folder,
        names: &[String],
        replaced: Option<&CertificateFacts>,
    ) -> Result<(String, KeyPair), OrderError> {
        debug_assert!(self.acme.terms_agreed && !names.is_empty(), "checked with the settings");
        let account = self.account(folder).await?;
        self.tell_contact(folder, &account).await?;
        let identifiers: Vec<Identifier> = names.iter().map(|name| Identifier::Dns(name.clone())).collect();
        let mut wish = NewOrder::new(&identifiers);
        if let Some(identifier) = replaced.and_then(identifier) {
            wish = wish.replaces(identifier);
        }
        let mut order = account.new_order(&wish).await.map_err(OrderError::before)?;
        self.prove(&mut order, names).await?;
        let key = KeyPair::generate().map_err(|error| OrderError::own(error.to_string()))?;
        if order.state().status != OrderStatus::Valid {
            let request = request_for(names, &key).map_err(|error| OrderError::own(error.to_string()))?;
            order.finalize_csr(&request).await.map_err(OrderError::within)?;
        }
        let chain = order.poll_certificate(&POLLS).await.map_err(OrderError::within)?;
        Ok((chain, key))
    }

    /// Returns the kept account, or a new one.
    async fn account(&self, folder: &Folder) -> Result<Account, OrderError> {
        let directory = &self.acme.directory;
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        if let Some(kept) = folder.account(directory) {
            let credentials: AccountCredentials = serde_json::from_slice(&kept).map_err(unreadable)?;
            return builder.from_credentials(credentials).await.map_err(OrderError::before);
        }
        let contact: Vec<&str> = self.acme.contact.iter().map(String::as_str).collect();
        let wish = NewAccount {
            contact: &contact,
            terms_of_service_agreed: self.acme.terms_agreed,
            only_return_existing: false,
        };
        let binding = binding(self.acme).map_err(OrderError::own)?;
        let made = builder.create(&wish, directory.clone(), binding.as_ref()).await;
        let (account, credentials) = made.map_err(OrderError::before)?;
        let kept = serde_json::to_value(&credentials).map_err(unreadable)?;
        self.keep_account(folder, kept)?;
        tracing::info!(account = tidy(account.id()), "a certificate authority has an account for this node");
        Ok(account)
    }

    /// Tells the authority of addresses that have changed since the account was made.
    async fn tell_contact(&self, folder: &Folder, account: &Account) -> Result<(), OrderError> {
        let Some(kept) = folder.account(&self.acme.directory) else { return Ok(()) };
        let kept: Value = serde_json::from_slice(&kept).map_err(unreadable)?;
        // Accounts of earlier versions do not tell theirs.
        let known = kept.get(CONTACT).cloned().unwrap_or_else(|| Value::Array(Vec::new()));
        if known == Value::from(self.acme.contact.clone()) {
            return Ok(());
        }
        let contact: Vec<&str> = self.acme.contact.iter().map(String::as_str).collect();
        account.update_contacts(&contact).await.map_err(OrderError::before)?;
        self.keep_account(folder, kept)?;
        tracing::info!("the certificate authority has the changed addresses of acme.contact");
        Ok(())
    }

    /// Keeps the account as the library writes it, with the addresses that the authority has.
    fn keep_account(&self, folder: &Folder, mut account: Value) -> Result<(), OrderError> {
        if let Some(parts) = account.as_object_mut() {
            parts.insert(CONTACT.into(), self.acme.contact.clone().into());
        }
        let unkept = |error| OrderError::own(format!("the account cannot be kept: {error}"));
        folder.put_account(&self.acme.directory, account.to_string().as_bytes()).map_err(unkept)
    }

    /// Opens the challenge of each name, and waits until the authority has looked.
    async fn prove(&self, order: &mut Order, names: &[String]) -> Result<(), OrderError> {
        let kind = match self.acme.challenge {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut authorizations = order.authorizations();
        let mut looked = 0;
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(OrderError::within)?;
            looked += 1;
            if looked > names.len() {
                return Err(OrderError::refused("it wants challenges of names that were not ordered".into()));
            }
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    let name = authorization.identifier().to_string();
                    let problem = authorization.challenges.iter().find_map(|it| it.error.as_ref());
                    let why =
                        problem.map_or_else(|| format!("{status:?}").to_lowercase(), ToString::to_string);
                    return Err(OrderError::refused(tidy(&format!("{name}: {why}"))));
                }
            }
            let Some(mut challenge) = authorization.challenge(kind.clone()) else {
                let why = format!("it does not offer the challenge {}", self.acme.challenge);
                return Err(OrderError::refused(why));
            };
            self.open(&challenge, names).map_err(OrderError::refused)?;
            challenge.set_ready().await.map_err(OrderError::within)?;
        }
        match order.poll_ready(&POLLS).await {
            Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
            Ok(_) => Err(OrderError::refused(refusal(order).await)),
            Err(Error::Api(_)) => Err(OrderError::refused(refusal(order).await)),
            Err(error) => Err(OrderError::within(error)),
        }
    }

    /// Opens a challenge for the authority.
    fn open(&self, challenge: &ChallengeHandle<'_>, names: &[String]) -> Result<(), String> {
        let name = challenge.identifier().to_string();
        if !names.contains(&name) {
            return Err(format!("it wants a challenge of {}, which was not ordered", tidy(&name)));
        }
        let authorization = challenge.key_authorization();
        let is_open = match self.acme.challenge {
            AcmeChallenge::Http01 => {
                self.challenges.open_http(&name, &challenge.token, authorization.as_str())
            }
            AcmeChallenge::TlsAlpn01 => {
                let answer = tls_answer(&name, authorization.digest().as_ref());
                self.challenges.open_tls(&name, answer.map_err(|error| error.to_string())?)
            }
        };
        is_open.then_some(()).ok_or_else(|| "its token is none, or too many are open".into())
    }
}

/// Returns the error of a kept account that cannot be read.
fn unreadable(error: serde_json::Error) -> OrderError {
    OrderError::own(format!("the kept account cannot be read: {error}"))
}

/// Returns the window in which the authority wants the certificate to be renewed, and the seconds
/// until it is to be asked again. `None` if it has no wish.
pub(super) async fn suggestion(
    authority: &Authority<'_>,
    folder: &Folder,
    facts: &CertificateFacts,
) -> Option<(Window, u64)> {
    let identifier = identifier(facts)?;
    // An authority without an account is not asked.
    folder.account(&authority.acme.directory)?;
    authority.client.allow(REQUESTS);
    let ask = async {
        let account = authority.account(folder).await.ok()?;
        account.renewal_info(&identifier).await.ok()
    };
    let (info, again) = tokio::time::timeout(SUGGESTION_MAX, ask).await.ok()??;
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    let window = info.suggested_window;
    let (start, end) = (seconds(window.start.unix_timestamp()), seconds(window.end.unix_timestamp()));
    Some((Window { start, end }, again.as_secs()))
}

/// Returns the authority's name of a certificate (RFC 9773, section 4.1).
fn identifier(facts: &CertificateFacts) -> Option<CertificateIdentifier<'static>> {
    let key = facts.authority_key.as_ref()?;
    Some(CertificateIdentifier::new(Der::from_slice(key), Der::from_slice(&facts.serial)))
}

/// Returns the reason for which the authority did not accept an answer.
async fn refusal(order: &mut Order) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { break };
        let name = state.identifier().to_string();
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        reasons.extend(problem.map(|problem| tidy(&format!("{name}: {problem}"))));
    }
    match reasons.is_empty() {
        true => "it accepts no answer, and tells no reason".into(),
        false => tidy(&reasons.join("; ")),
    }
}

/// Returns the certificate that proves `name` in a handshake (RFC 8737, section 3).
fn tls_answer(name: &str, digest: &[u8]) -> Result<TlsAnswer, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().to_vec();
    Ok(TlsAnswer { certificate, key: key.serialize_der() })
}

fn request_for(names: &[String], key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// Reads the key of an external account.
fn binding(acme: &Acme) -> Result<Option<ExternalAccountKey>, String> {
    use base64::Engine as _;
    let (Some(id), Some(file)) = (&acme.binding_id, &acme.binding_key_file) else { return Ok(None) };
    let fault = |why: String| format!("acme.binding_key_file {}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| fault(error.to_string()))?;
    let text = text.trim().trim_end_matches('=');
    let key = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text);
    let key = key.map_err(|error| fault(error.to_string()))?;
    Ok(Some(ExternalAccountKey::new(id.clone(), &key)))
}

/// Checks the authority's answer: a chain for our key, for exactly these names, valid at `now`.
/// Returns key and chain, written anew.
fn check(chain: &str, key: &KeyPair, names: &[String], now: u64) -> Result<NewCertificate, String> {
    let certificates = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("its chain cannot be read: {error}"))?;
    if certificates.is_empty() || certificates.len() > CHAIN_MAX {
        return Err(format!("its chain has {} certificates", certificates.len()));
    }
    let leaf = &certificates[0];
    let read = EndEntityCert::try_from(leaf).map_err(|error| format!("its certificate: {error}"))?;
    let mut given: Vec<String> = read.valid_dns_names().map(str::to_ascii_lowercase).collect();
    let mut wanted = names.to_vec();
    given.sort();
    wanted.sort();
    given.dedup();
    if given != wanted {
        return Err(tidy(&format!("its certificate is for {}", given.join(", "))));
    }
    let facts = CertificateFacts::read(leaf).ok_or("the dates of its certificate cannot be read")?;
    if facts.not_after <= now || facts.not_before > now + CLOCK_SKEW {
        return Err("its certificate is not valid now; is the clock right?".into());
    }
    let pkcs8 = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = rustls::crypto::ring::default_provider();
    rustls::sign::CertifiedKey::from_der(certificates.clone(), pkcs8.into(), &provider)
        .map_err(|error| format!("its certificate is for another key: {error}"))?;
    assert_eq!(given, wanted, "a certificate for others is not used");
    debug_assert!(facts.not_after > now);
    let chain: String = certificates.iter().map(|certificate| pem(certificate)).collect();
    Ok(NewCertificate { pem: key.serialize_pem() + &chain, facts })
}

/// Returns a certificate as PEM.
fn pem(certificate: &[u8]) -> String {
    use base64::Engine as _;
    let coded = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines: Vec<&str> =
        coded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

impl OrderError {
    /// A fault of this machine.
    fn own(why: String) -> Self {
        Self { why, failure: Failure::Unreachable, is_account_gone: false }
    }

    /// A disk that did not take the certificate, which the authority has counted.
    pub fn unkept(error: &std::io::Error) -> Self {
        Self::refused(format!("the certificate has come and cannot be kept: {error}"))
    }

    fn refused(why: String) -> Self {
        Self { why, failure: Failure::Refused, is_account_gone: false }
    }

    /// An error before the order was made.
    fn before(error: Error) -> Self {
        let (failure, is_account_gone) = match &error {
            Error::Api(problem) => {
                let kind = problem.r#type.as_deref().unwrap_or_default();
                let is_fault =
                    kind.ends_with(":serverInternal") || problem.status.is_some_and(|it| it >= 500);
                let failure = if is_fault { Failure::Unreachable } else { Failure::Refused };
                (failure, kind.ends_with(":accountDoesNotExist"))
            }
            _ => (Failure::Unreachable, false),
        };
        Self { why: tidy(&error.to_string()), failure, is_account_gone }
    }

    /// An error after the order was made, which the authority counts.
    fn within(error: Error) -> Self {
        Self { failure: Failure::Refused, ..Self::before(error) }
    }
}

/// Name of the addresses beside the library's own names in the file of an account.
const CONTACT: &str = "contact";
/// Waits between looks at an order.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));
/// Longest time of an order.
const ORDER_MAX: Duration = Duration::from_secs(300);
/// Longest time of a question for a window.
const SUGGESTION_MAX: Duration = Duration::from_secs(60);
/// Most requests of an order, beside those for each name.
const REQUESTS: u32 = 60;
/// Most further requests for each name.
const REQUESTS_OF_NAME: u32 = 6;
/// Most certificates in a chain.
const CHAIN_MAX: usize = 10;
/// Seconds by which the authority's clock may be ahead.
const CLOCK_SKEW: u64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Returns a certificate that `key` has signed for itself, PEM.
    fn made(key: &KeyPair, of: &[&str], until: i32) -> String {
        let mut params = CertificateParams::new(names(of)).expect("names");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        params.self_signed(key).expect("a certificate").pem()
    }

    #[test]
    fn only_the_ordered_certificate_is_taken() {
        let (key, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let now = 1_700_000_000;
        let ordered = names(&["a.test", "b.test"]);
        let sound = made(&key, &["b.test", "a.test"], 2040);
        let issued = check(&sound, &key, &ordered, now).expect("sound");
        assert!(issued.pem.starts_with("-----BEGIN PRIVATE KEY-----"), "{}", issued.pem);
        assert_eq!(CertificateDer::pem_slice_iter(issued.pem.as_bytes()).count(), 1);
        let long = sound.repeat(11);
        for (chain, why) in [
            (made(&key, &["a.test"], 2040), "is for a.test"),
            (made(&key, &["a.test", "b.test", "evil.test"], 2040), "evil.test"),
            (made(&key, &["a.test", "b.test"], 2021), "not valid now"),
            (made(&other, &["a.test", "b.test"], 2040), "another key"),
            (long, "11 certificates"),
            (String::new(), "0 certificates"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(), "its certificate"),
        ] {
            let error = check(&chain, &key, &ordered, now).err().expect("refused");
            assert!(error.contains(why), "{why}: {error}");
        }
        assert!(check(&sound, &key, &ordered, 1_000_000_000).is_err(), "the clock is far behind");
    }

    #[test]
    fn tls_answers_name_their_host() {
        let answer = tls_answer("a.test", &[7; 32]).expect("a certificate");
        let der = CertificateDer::from(answer.certificate.clone());
        let read = EndEntityCert::try_from(&der);
        // A critical extension that clients do not know makes it useless for them.
        assert!(read.is_err() || read.is_ok_and(|read| read.valid_dns_names().eq(["a.test"])));
        assert!(answer.certificate.windows(32).any(|part| part == [7; 32]));
    }
}
