//! A web server whose sessions are records that expire: axum, and a store that no request waits for longer than for its own write.
//!
//! `cargo run --example sessions -- --serve` listens on port 3000: `curl -X POST localhost:3000/login/ada` answers a session, and
//! `curl -H 'authorization: SESSION' localhost:3000/me` whose it is. Without `--serve` it asks itself, and ends.
#![expect(clippy::expect_used, reason = "an example says what failed by ending")]

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use pipkin::{AsyncDb, AsyncNamespace};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A session ends so long after its last request.
const LIVES: Duration = Duration::from_secs(30 * 60);

/// The handle of a namespace is the state: a clone for each request costs nothing.
async fn app(db: &AsyncDb) -> pipkin::Result<Router> {
    let sessions = db.namespace("sessions").await?.with_ttl(LIVES);
    let routes = Router::new().route("/login/{name}", post(login)).route("/logout", post(logout)).route("/me", get(me));
    Ok(routes.with_state(sessions))
}

/// Answers once the session survives a power cut. However many log in at once, they share syncs.
async fn login(State(sessions): State<AsyncNamespace>, Path(name): Path<String>) -> Result<String, StatusCode> {
    // A real server takes this from its cryptographic source.
    let id = format!("{:016x}{:016x}", RandomState::new().hash_one(&name), RandomState::new().hash_one(&name));
    sessions.durable().insert(&id, &name).await.map_err(failed)?;
    Ok(id)
}

/// A read from memory, and a write that prolongs the session; it need not survive a power cut.
async fn me(State(sessions): State<AsyncNamespace>, headers: HeaderMap) -> Result<String, StatusCode> {
    let id = id(&headers)?;
    let name = sessions.get(id).await.map_err(failed)?.ok_or(StatusCode::UNAUTHORIZED)?;
    sessions.compare_and_swap(id, Some(&name), Some(&name)).await.map_err(failed)?;
    String::from_utf8(name).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn logout(State(sessions): State<AsyncNamespace>, headers: HeaderMap) -> Result<(), StatusCode> {
    sessions.durable().remove(id(&headers)?).await.map(drop).map_err(failed)
}

fn id(headers: &HeaderMap) -> Result<&str, StatusCode> {
    headers.get("authorization").and_then(|id| id.to_str().ok()).ok_or(StatusCode::UNAUTHORIZED)
}

fn failed(error: pipkin::Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build()?;
    runtime.block_on(async {
        let db = AsyncDb::open(folder.path().join("sessions.pipkin")).await?;
        let serves = std::env::args().any(|argument| argument == "--serve");
        let listener = TcpListener::bind(if serves { "127.0.0.1:3000" } else { "127.0.0.1:0" }).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(axum::serve(listener, app(&db).await?).into_future());
        if serves {
            println!("listens on {address}");
            server.await??;
            return Ok(());
        }

        let login = ask(address, "POST /login/ada", "").await?;
        let id = login.lines().last().expect("a session").to_owned();
        assert!(ask(address, "GET /me", &id).await?.ends_with("ada"));
        assert!(db.find_namespace("sessions").await.expect("it is there").ttl(&id).await?.is_some_and(|left| left <= LIVES));
        ask(address, "POST /logout", &id).await?;
        assert!(ask(address, "GET /me", &id).await?.starts_with("HTTP/1.1 401"));
        server.abort();
        db.close().await?;
        Ok(())
    })
}

async fn ask(address: std::net::SocketAddr, line: &str, id: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: {id}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
