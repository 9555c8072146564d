//! No store at all: what the size of every other program starts from.

fn main() {
    println!("{:?}", std::env::args().nth(1));
}
