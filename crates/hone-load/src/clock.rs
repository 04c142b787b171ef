//! The window's clock, and the kernel's time stamps of answers.
//!
//! On a virtual machine, waking up for every acknowledgement would cost the generator, and the target that wakes it, more than the request
//! itself. So the engine sleeps until the next request is due and then reads the answers. It takes their times from the kernel, which
//! stamped each segment on arrival. This also makes the latency more exact: it does not contain the generator's own scheduling.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since a window's start, from this process' clock and from the kernel's stamps.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// Offset from a stamp (ns since 1970) to ns since `start`.
    offset_ns: i128,
}

impl Clock {
    pub(crate) fn new(start: Instant) -> Self {
        let mut clock = Self { start, offset_ns: 0 };
        clock.adjust();
        clock
    }

    /// Compares the two clocks again. The kernel's stamps follow corrections of the time of day, the window does not.
    pub(crate) fn adjust(&mut self) {
        // Of several readings, the one with the least time between its two halves is the most exact.
        let readings = (0..4).map(|_| {
            let before = Instant::now();
            let wall =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
            let after = Instant::now();
            let middle = before + (after - before) / 2;
            let since_start = if middle >= self.start {
                (middle - self.start).as_nanos() as i128
            } else {
                -((self.start - middle).as_nanos() as i128)
            };
            (after - before, wall - since_start)
        });
        if let Some((_, offset_ns)) = readings.min_by_key(|(took, _)| *took) {
            self.offset_ns = offset_ns;
        }
    }

    /// The current time; zero before the start (the arms of concurrent pairs agree on a start slightly ahead).
    pub(crate) fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    /// The window time of a stamp, never later than now. A stamp in the future means that the time of day was just corrected.
    pub(crate) fn at_ns(&self, stamp: Duration) -> u64 {
        let since_start = stamp.as_nanos() as i128 - self.offset_ns;
        u64::try_from(since_start).unwrap_or(0).min(self.now_ns())
    }

    /// Sleeps until a time, to about a microsecond.
    pub(crate) fn sleep_until(&self, at_ns: u64) {
        let left_ns = at_ns.saturating_sub(self.now_ns());
        if left_ns > SPIN_BELOW_NS {
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
    }
}

/// Sets the calling thread's timer slack to 1 ns. The default of 50 µs would delay requests.
#[cfg(feature = "librdkafka")]
pub(crate) fn exact_timers() {
    // SAFETY: no pointers are passed. If the call fails, sleeps end slightly later, and the measured delay shows it.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Going to sleep and waking up costs about this much, so a shorter wait is cheaper awake.
const SPIN_BELOW_NS: u64 = 5_000;

/// Asks the kernel to stamp data that arrives on a socket.
pub(crate) fn stamp_arrivals(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that lives through the call, and its size is passed.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Room for one control message with a time.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Reads from a socket. Also returns the time of day at which the kernel received the last byte, if it knows.
pub(crate) fn receive_timed(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    receive_with(socket, buffer, 0)
}

/// Does the same without removing the bytes from the socket.
pub(crate) fn peek_timed(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    receive_with(socket, buffer, libc::MSG_PEEK)
}

fn receive_with(
    socket: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, Option<Duration>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero header is valid (it points to nothing).
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: the header points to a buffer and a control area that live through the call, with their sizes.
    let count = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled `control` and set its length; the macros stay within it.
    let stamp = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let is_stamp = !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_TIMESTAMPNS
            && (*head).cmsg_len >= libc::CMSG_LEN(mem::size_of::<libc::timespec>() as u32) as usize;
        is_stamp.then(|| libc::CMSG_DATA(head).cast::<libc::timespec>().read_unaligned())
    };
    let stamp = stamp
        .filter(|time| time.tv_sec > 0)
        .map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
    Ok((count as usize, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn what_arrived_before_it_was_read_has_the_time_of_its_arrival() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stamp_arrivals(reader.as_raw_fd()).unwrap();
        let mut writer = listener.accept().unwrap().0;
        let clock = Clock::new(Instant::now());
        // Where no other socket wants stamps, the kernel begins to make them a moment after it was asked.
        let stamped = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            writer.write_all(b"x").unwrap();
            receive_timed(reader.as_raw_fd(), &mut [0; 8]).unwrap().1.is_some()
        });
        assert!(stamped, "this kernel makes no stamps");

        let before_ns = clock.now_ns();
        writer.write_all(b"answer").unwrap();
        let after_ns = clock.now_ns();
        std::thread::sleep(Duration::from_millis(50));
        let (count, stamp) = receive_timed(reader.as_raw_fd(), &mut [0; 64]).unwrap();
        assert_eq!(count, 6);
        let at_ns = clock.at_ns(stamp.expect("the kernel stamps"));
        // Within the write, but for the difference of two readings of two clocks.
        assert!(
            at_ns + 20_000 >= before_ns && at_ns <= after_ns + 20_000,
            "{before_ns} <= {at_ns} <= {after_ns}"
        );
    }

    #[test]
    fn the_end_of_a_stream_and_an_empty_socket_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        reader.set_nonblocking(true).unwrap();
        let writer = listener.accept().unwrap().0;
        let empty = receive_timed(reader.as_raw_fd(), &mut [0; 8]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(receive_timed(reader.as_raw_fd(), &mut [0; 8]).unwrap(), (0, None));
    }
}
