//! Readers and the writer of an arriving body.

use super::*;
use crate::holds::Holds;

fn poll(reader: &BodyReader) -> Poll<Result<ReadStep, BodyError>> {
    reader.poll_next(3, &mut Context::from_waker(Waker::noop()))
}

fn bytes(polled: Poll<Result<ReadStep, BodyError>>) -> Vec<u8> {
    match polled {
        Poll::Ready(Ok(ReadStep::Bytes(bytes))) => bytes.to_vec(),
        _ => panic!("bytes were expected"),
    }
}

#[test]
fn readers_follow_at_their_own_pace() {
    let body = SharedBody::new();
    let (fast, slow) = (body.attach(0).expect("at the start"), body.attach(0).expect("at the start"));
    assert!(poll(&fast).is_pending());
    body.append(Bytes::from_static(b"abcdef"));
    assert_eq!(bytes(poll(&fast)), b"abc");
    fast.advance(3);
    assert_eq!(bytes(poll(&fast)), b"def");
    assert_eq!(bytes(poll(&slow)), b"abc");
    body.finish(BodyEnd::Complete(None));
    fast.advance(3);
    assert!(matches!(poll(&fast), Poll::Ready(Ok(ReadStep::End(BodyEnd::Complete(None))))));
    assert_eq!(body.gathered(Some(&Bytes::from_static(b"gh"))), &b"abcdefgh"[..]);
}

#[test]
fn window_without_spill_keeps_bytes_for_readers() {
    let body = SharedBody::new();
    let slow = body.attach(0).expect("at the start");
    body.append(Bytes::from(vec![1; JOINED_MAX]));
    body.append(Bytes::from_static(b"def"));
    assert_eq!(body.trim(0), JOINED_MAX + 3, "the reader is at 0");
    slow.advance(JOINED_MAX as u64);
    assert_eq!(body.trim(0), 3);
    assert!(body.attach(0).is_none(), "the beginning is gone for newcomers");
    drop(slow);
    assert_eq!(body.trim(0), 0);
}

#[test]
fn single_bytes_are_joined_into_few_chunks() {
    let body = SharedBody::new();
    let reader = body.attach(0).expect("at the start");
    let whole: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    whole.iter().for_each(|byte| body.append(Bytes::copy_from_slice(&[*byte])));
    let chunks = body.state.lock().window.len();
    assert!(chunks <= whole.len() / (JOINED_MAX / 2) + JOINED_MAX.ilog2() as usize, "{chunks} chunks");
    reader.advance(70_000);
    assert_eq!(bytes(poll(&reader)), &whole[70_000..70_003]);
    assert_eq!(body.gathered(None), whole);
}

#[test]
fn a_reader_that_has_left_is_not_remembered() {
    struct Nobody;
    impl std::task::Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let body = SharedBody::new();
    let tasks: Vec<_> = (0..100).map(|_| Arc::new(Nobody)).collect();
    for task in &tasks {
        let reader = body.attach(0).expect("at the start");
        let waker = Waker::from(Arc::clone(task));
        assert!(reader.poll_next(1, &mut Context::from_waker(&waker)).is_pending());
    }
    assert!(tasks.iter().all(|task| Arc::strong_count(task) == 1), "what waited for the body is held on to");
}

#[test]
fn a_body_in_one_piece_takes_the_place_of_its_pieces() {
    let body = SharedBody::new();
    let reader = body.attach(0).expect("at the start");
    let pieces = [Bytes::from(b"abc".to_vec()), Bytes::from(b"def".to_vec())];
    pieces.iter().for_each(|piece| body.append(piece.clone()));
    reader.advance(2);
    body.replace_by_whole(Bytes::from_static(b"abcdefgh"));
    body.finish(BodyEnd::Complete(None));
    assert!(pieces.iter().all(Bytes::is_unique), "nobody holds the pieces");
    assert_eq!(bytes(poll(&reader)), b"cde");
    reader.advance(6);
    assert!(matches!(poll(&reader), Poll::Ready(Ok(ReadStep::End(BodyEnd::Complete(None))))));
}

#[test]
fn window_stays_charged_until_reader_leaves() {
    let ledger = shoal_memory::MemoryBudget::new(100);
    let body = SharedBody::new();
    let slow = body.attach(0).expect("at the start");
    body.append(Bytes::from_static(b"abc"));
    body.finish(BodyEnd::Complete(None));
    let hold = Holds::new(3).hold(3).expect("room");
    body.charge(ledger.try_reserve(3).expect("room"), hold);
    drop(body);
    assert_eq!(ledger.used(), 3);
    drop(slow);
    assert_eq!(ledger.used(), 0);
}

#[tokio::test]
async fn the_writer_waits_for_the_slowest_reader() {
    let body = SharedBody::new();
    let slow = body.attach(0).expect("at the start");
    body.append(Bytes::from_static(b"abcdef"));
    let waits = std::pin::pin!(body.wait_window_below(2));
    assert!(waits.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    slow.advance(6);
    body.wait_window_below(2).await;
}
