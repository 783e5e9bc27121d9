//! Which pieces start at a place of a text: a trie over their bytes.

/// Pieces by their bytes.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    piece: Option<u32>,
    /// In the order of the bytes.
    children: Vec<(u8, u32)>,
}

impl Default for Trie {
    fn default() -> Trie {
        Trie { nodes: vec![Node::default()] }
    }
}

impl Trie {
    /// Adds a piece; of two with one text the first stays.
    pub(super) fn insert(&mut self, text: &str, piece: u32) {
        let mut at = 0;
        for byte in text.bytes() {
            let found = self.nodes[at].children.binary_search_by_key(&byte, |(byte, _)| *byte);
            at = match found {
                Ok(child) => self.nodes[at].children[child].1 as usize,
                Err(place) => {
                    let next = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].children.insert(place, (byte, next as u32));
                    next
                }
            };
        }
        self.nodes[at].piece.get_or_insert(piece);
    }

    /// The pieces that `bytes` starts with, the shortest first: length and piece.
    pub(super) fn prefixes<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, u32)> {
        let mut at = 0;
        let lens = bytes.iter().enumerate().map_while(move |(index, byte)| {
            let children = &self.nodes[at].children;
            let child = children.binary_search_by_key(byte, |(byte, _)| *byte).ok()?;
            at = children[child].1 as usize;
            Some((index + 1, self.nodes[at].piece))
        });
        lens.filter_map(|(len, piece)| Some((len, piece?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_the_shortest_first_and_only_whole_pieces_count() {
        let mut trie = Trie::default();
        for (piece, text) in ["ab", "a", "abcd", "\u{2581}", "b"].iter().enumerate() {
            trie.insert(text, piece as u32);
        }
        trie.insert("a", 9);
        let found = |text: &str| trie.prefixes(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("abcx"), [(1, 1), (2, 0)]);
        assert_eq!(found("abcd"), [(1, 1), (2, 0), (4, 2)]);
        assert_eq!(found("\u{2581}a"), [(3, 3)]);
        assert_eq!(found("x"), []);
        assert_eq!(found(""), []);
    }
}
