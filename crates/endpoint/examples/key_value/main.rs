//! A key-value store and its client.
//!
//! ```sh
//! cargo run --release --example key_value serve 127.0.0.1:5280 &
//! cargo run --release --example key_value 127.0.0.1:5280 put colour blue
//! cargo run --release --example key_value 127.0.0.1:5280 get colour
//! ```

#[cfg(target_os = "linux")]
mod store;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use tidegate_endpoint::host::Host;

    const KEY: &str = "not much of a secret";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (to, words) = match arguments[..] {
        ["serve", address] => {
            let host = Host::bind(address.parse()?, store::config(KEY))?;
            println!("serving at {}", host.address());
            return Err(store::serve(&host).into());
        }
        [to, ref words @ ..] => (to, words),
        [] => {
            return Err("expected `serve ADDRESS`, or `ADDRESS get|put|delete KEY [VALUE]`".into());
        }
    };
    let host = Host::bind("0.0.0.0:0".parse()?, store::config(KEY))?;
    let store = store::Store(host.connect(to.parse()?).wait()?);
    let value = match *words {
        ["get", key] => store.get(key)?,
        ["put", key, value] => store.put(key, value.as_bytes())?,
        ["delete", key] => store.delete(key)?,
        _ => return Err("expected `get KEY`, `put KEY VALUE` or `delete KEY`".into()),
    };
    println!(
        "{}",
        value.map_or("none".into(), |value| String::from_utf8_lossy(&value).into_owned())
    );
    Ok(host.close().wait()?)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this example needs Linux");
}
