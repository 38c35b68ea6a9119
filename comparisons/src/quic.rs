//! QUIC by quinn, with its default cipher (AES-256-GCM by ring) and congestion control (CUBIC). A
//! message is a stream.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::future::try_join_all;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, EndpointConfig, Incoming, MtuDiscoveryConfig, ServerConfig,
    TokioRuntime, TransportConfig,
};
use tokio::runtime::{Builder, Runtime};

use crate::system::{ANSWER, Done, Load, System};

/// The server's name in its certificate.
const NAME: &str = "peer";

/// QUIC with a maximum datagram length.
pub(crate) struct Quic {
    pub(crate) datagram: u16,
}

/// One thread, which is the most efficient on few cores.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

impl Quic {
    /// The transport configuration. As for all systems, the datagram length is configured.
    fn transport(&self) -> Arc<TransportConfig> {
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(self.datagram);
        let mut transport = TransportConfig::default();
        transport.initial_mtu(self.datagram).mtu_discovery_config(Some(search));
        Arc::new(transport)
    }

    fn endpoint(&self, at: SocketAddr, server: Option<ServerConfig>) -> Result<quinn::Endpoint> {
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(self.datagram)?;
        let socket = UdpSocket::bind(at)?;
        Ok(quinn::Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?)
    }
}

impl System for Quic {
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = made.cert.der().clone();
        let word: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
        config.transport_config(self.transport());
        runtime()?.block_on(async {
            let endpoint = self.endpoint(at, Some(config))?;
            ready(&word);
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(answer(incoming));
            }
            Ok(())
        })
    }

    fn send(&self, to: SocketAddr, word: &str, load: Load, done: &Done<'_>) -> Result<()> {
        let digits = word.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or(""));
        let certificate: Result<Vec<u8>, _> =
            digits.map(|pair| u8::from_str_radix(pair, 16)).collect();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(certificate.context("no certificate")?))?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(self.transport());
        let body = Bytes::from(vec![7; load.bytes]);
        runtime()?.block_on(async {
            let endpoint = self.endpoint(SocketAddr::from(([0, 0, 0, 0], 0)), None)?;
            let connection = endpoint.connect_with(config, to, NAME)?.await?;
            try_join_all((0..load.ahead).map(|_| messages(&connection, &body, done))).await?;
            Ok(())
        })
    }
}

/// Sends messages one after the other.
async fn messages(connection: &Connection, body: &Bytes, done: &Done<'_>) -> Result<()> {
    loop {
        let since = Instant::now();
        let (mut out, mut answer) = connection.open_bi().await?;
        out.write_chunk(body.clone()).await?;
        out.finish()?;
        answer.read_exact(&mut [0; ANSWER.len()]).await?;
        if !done(since.elapsed()) {
            return Ok(());
        }
    }
}

/// Answers the messages of a connection until it ends.
async fn answer(incoming: Incoming) -> Result<()> {
    let connection = incoming.await?;
    loop {
        let (mut out, mut message) = connection.accept_bi().await?;
        tokio::spawn(async move {
            // Unordered reads are the cheapest, and the content does not matter.
            while message.read_chunk(usize::MAX, false).await?.is_some() {}
            out.write_chunk(Bytes::from_static(ANSWER)).await?;
            out.finish()?;
            anyhow::Ok(())
        });
    }
}
