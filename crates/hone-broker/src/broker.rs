//! A running broker: its threads, from start to stop.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};
use mio::{Poll, Waker};

use crate::coordinator::Coordinator;
use crate::durable::record_fsyncs;
use crate::mailbox::{Letter, Mailbox};
use crate::node::{Node, Stores};
use crate::outage::Mark;
use crate::partition::Storage;
use crate::properties::broker::BrokerProperties;
use crate::quotas::Quotas;
use crate::reactor::{BELL, Reactor};
use crate::reserve::Reserve;
use crate::security::Security;
use crate::security::acl::Acls;
use crate::settings::Settings;
use crate::ticket::Ticket;
use crate::topics::Topics;
use crate::transaction_ends::{self, NodeEnds};
use crate::transactions::Transactions;
use crate::{acceptor, clerk, flusher, metrics, settings_check, workers};

const LOCK_FILE: &str = "lock";

/// A running broker. Dropping it stops it, as [`Broker::stop`] does, but reports no errors.
#[must_use = "the broker stops as soon as this value is dropped"]
pub struct Broker {
    node: Arc<Node>,
    kafka_addr: SocketAddr,
    metrics_addr: Option<SocketAddr>,
    stopping: Arc<AtomicBool>,
    metrics_bell: Option<Arc<Waker>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    flushers: Vec<JoinHandle<std::io::Result<()>>>,
    /// Taken away by a clean stop.
    mark: Option<Mark>,
    /// Of the data folder.
    lock: Option<File>,
}

impl Broker {
    /// Binds the addresses, opens the data folder (and cuts torn tails) and starts all threads. When it returns, the broker serves clients.
    ///
    /// # Errors
    /// [`SettingsError`] when the settings are invalid, for example a number out of its range or a listener without TLS and login. Other
    /// errors when the machine does not allow them: a port is in use, or the data folder is not writable, in use by another broker, or
    /// damaged.
    ///
    /// [`SettingsError`]: crate::SettingsError
    pub fn start(settings: Settings) -> anyhow::Result<Self> {
        settings.check()?;
        settings_check::warn(&settings);
        if let Some(folder) = &settings.fsync_record {
            let unwritable = || format!("can't record fsyncs in {} (--record-fsyncs)", folder.display());
            record_fsyncs(folder).with_context(unwritable)?;
        }
        let data_dir = (!settings.memory).then(|| settings.data_dir.clone());
        let lock = data_dir.as_deref().map(lock_data_dir).transpose()?;
        // Bound before the log is read: a port in use should not cost a scan.
        let listener = bind(settings.listen, "--listen")?;
        let metrics_listener =
            settings.metrics_listen.map(|address| bind(address, "--metrics-listen")).transpose()?;
        let kafka_addr = listener.local_addr()?;
        let advertised = settings.endpoint(kafka_addr);
        let (security, logins) = Security::open(&settings, data_dir.as_deref())?;
        let acls = Acls::open(data_dir.as_deref(), settings.authorize, &settings.super_users)?;
        settings_check::check_lists(&settings, &acls, &security.users)?;
        let started_with = BrokerProperties::fixed(&settings, &advertised).map_err(anyhow::Error::msg)?;
        let storage = Storage {
            notices: settings.notices.clone(),
            faults: settings.faults.clone(),
            memory: settings.memory,
            reserve: data_dir.as_deref().map(|data_dir| Arc::new(Reserve::open(data_dir, &settings.notices))),
        };
        let topics = Topics::open(data_dir.clone(), &started_with, storage)?;
        let topics = topics.limited(settings.limits.partitions);
        let coordinator = Coordinator::open(data_dir.as_deref(), &settings)?;
        let mark = data_dir.as_deref().map(Mark::of);
        let outage = mark.as_ref().map(Mark::tells_of_an_outage).transpose()?.unwrap_or_default();
        coordinator.meet(&topics, outage, &settings.notices)?;
        mark.as_ref().map(Mark::set).transpose()?;
        let quotas = Quotas::open(data_dir.as_deref())?;
        let transactions = Transactions::open(data_dir.as_deref(), &settings.notices)
            .with_context(|| format!("can't open the transactions in {}", settings.data_dir.display()))?
            .limited(settings.limits.transactional_ids);

        let polls = (0..settings.threads).map(|_| poll_with_bell()).collect::<anyhow::Result<Vec<_>>>()?;
        let (polls, bells): (Vec<_>, Vec<_>) = polls.into_iter().unzip();
        let (acceptor_poll, acceptor_bell) = poll_with_bell()?;
        let mailboxes = bells.into_iter().map(Mailbox::new).collect();
        let (desk, jobs) = clerk::desk();
        let stores = Stores { security, topics, coordinator, acls, quotas, transactions };
        let node = Arc::new(Node::new(settings, advertised, stores, desk, mailboxes, acceptor_bell));
        node.start_answering();
        transaction_ends::settle_open(&node).context("can't abort the open transactions")?;
        let mut broker = Self {
            node,
            kafka_addr,
            metrics_addr: None,
            stopping: Arc::default(),
            metrics_bell: None,
            threads: Vec::new(),
            flushers: Vec::new(),
            mark,
            lock,
        };
        let node = Arc::clone(&broker.node);
        broker.spawn("clerk", move || clerk::run(&node, &jobs))?;
        let node = Arc::clone(&broker.node);
        broker.spawn("logins", move || workers::check_passwords(&node, &logins))?;
        broker.start_threads(polls, listener, acceptor_poll)?;
        if let Some(listener) = metrics_listener {
            broker.start_metrics(listener)?;
        }
        Ok(broker)
    }

    fn start_threads(
        &mut self,
        polls: Vec<Poll>,
        listener: TcpListener,
        acceptor_poll: Poll,
    ) -> anyhow::Result<()> {
        for (index, poll) in polls.into_iter().enumerate() {
            let reactor = Reactor::new(index, Arc::clone(&self.node), poll);
            self.spawn(&format!("reactor-{index}"), move || reactor.run())?;
        }
        for index in 0..flusher::THREADS {
            let node = Arc::clone(&self.node);
            let thread = start(&format!("flush-{index}"), move || {
                workers::flush(&node);
                Ok(())
            })?;
            self.flushers.push(thread);
        }
        let node = Arc::clone(&self.node);
        self.spawn("housekeep", move || {
            workers::keep_house(&node);
            Ok(())
        })?;
        self.start_transactions()?;
        let (node, stopping) = (Arc::clone(&self.node), Arc::clone(&self.stopping));
        self.spawn("accept", move || acceptor::run(&node, &listener, acceptor_poll, &stopping))
    }

    fn start_transactions(&mut self) -> anyhow::Result<()> {
        let ends = NodeEnds::new(Arc::clone(&self.node));
        self.spawn("transactions", move || {
            ends.node().transactions.run(&ends);
            Ok(())
        })
    }

    fn start_metrics(&mut self, listener: TcpListener) -> anyhow::Result<()> {
        self.metrics_addr = Some(listener.local_addr()?);
        let (poll, bell) = poll_with_bell()?;
        self.metrics_bell = Some(Arc::new(bell));
        let (node, stopping) = (Arc::clone(&self.node), Arc::clone(&self.stopping));
        self.spawn("metrics", move || metrics::run(&node, &listener, poll, &stopping))
    }

    fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        self.threads.push(start(name, body)?);
        Ok(())
    }

    /// The bound address for clients, with the real port.
    pub fn kafka_addr(&self) -> SocketAddr {
        self.kafka_addr
    }

    /// The bound address of `/metrics` and `/ready`; `None` when off.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// The ready line for the process that started the broker: `ready kafka=ADDR metrics=ADDR data=FOLDER pid=N`.
    pub fn ready_line(&self) -> String {
        let metrics = self.metrics_addr.map_or("off".to_owned(), |address| address.to_string());
        let (kafka, data, pid) = (self.kafka_addr, self.node.settings.place(), std::process::id());
        format!("ready kafka={kafka} metrics={metrics} data={data} pid={pid}")
    }

    /// Accepts no more clients, lets clients read the finished answers, and joins every thread.
    ///
    /// # Errors
    /// When a thread has failed before.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.stop_threads()
    }

    fn stop_threads(&mut self) -> anyhow::Result<()> {
        self.stopping.store(true, Ordering::Release);
        self.node.settings.faults.end_stalls();
        self.node.ring();
        self.node.housekeeper.end();
        self.node.transactions.stop();
        self.node.desk.close();
        self.node.security.hasher.stop();
        if let Some(bell) = &self.metrics_bell {
            bell.wake().context("can't wake the metrics thread")?;
        }
        for reactor in 0..self.node.mailboxes.len() {
            self.node.post(Ticket { reactor, connection: 0 }, Letter::Stop);
        }
        let result = join_all(&mut self.threads);
        self.node.close_journal();
        self.node.transactions.close();
        // From here on, no thread requests a flush.
        self.node.flusher.end();
        let left = result.and(join_all(&mut self.flushers)).and(self.close_logs());
        let left = left.and_then(|()| self.mark.take().map_or(Ok(()), |mark| mark.take_away()));
        // To close it is not enough: a child that this process is starting at the moment has it open, too.
        left.and(
            self.lock.take().map_or(Ok(()), |lock| lock.unlock().context("can't unlock the data folder")),
        )
    }
}

impl Broker {
    /// Leaves the logs so that the next start has nothing to look through.
    fn close_logs(&self) -> anyhow::Result<()> {
        let mut result = Ok(());
        for topic in self.node.topics.all() {
            for partition in &topic.partitions {
                let closed = partition.close();
                result = result.and(closed.with_context(|| {
                    format!("can't close the log of {}-{}", partition.topic, partition.index)
                }));
            }
        }
        self.node.close_journal();
        result
    }
}

fn start(
    name: &str,
    body: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> anyhow::Result<JoinHandle<std::io::Result<()>>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.with_context(|| format!("can't start the thread {name}"))
}

fn join_all(threads: &mut Vec<JoinHandle<std::io::Result<()>>>) -> anyhow::Result<()> {
    let mut result = Ok(());
    for thread in threads.drain(..) {
        let name = thread.thread().name().unwrap_or("?").to_owned();
        let ended = match thread.join() {
            Ok(ended) => ended.with_context(|| format!("the thread {name} failed")),
            Err(_) => Err(anyhow::anyhow!("the thread {name} panicked")),
        };
        result = result.and(ended);
    }
    result
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Who wants to know calls `stop`.
        let _ = self.stop_threads();
    }
}

/// Raises the limit of open files as far as allowed, because each client needs one and each partition a few. Returns the limit.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours to write.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `raised` is a limit that the system has named; a refusal leaves the old one.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
        raised.rlim_cur
    } else {
        limit.rlim_cur
    }
}

/// Makes the folder and locks it for this process, however that one ends.
fn lock_data_dir(data_dir: &Path) -> anyhow::Result<File> {
    let shown = data_dir.display();
    if data_dir.exists() && !data_dir.is_dir() {
        bail!("the data folder {shown} (--data) is not a folder\n  next: use another path");
    }
    fs::create_dir_all(data_dir).with_context(|| format!("can't create the data folder {shown} (--data)"))?;
    let path = data_dir.join(LOCK_FILE);
    let unwritable = || format!("can't write to the data folder {shown} (--data)");
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(unwritable)?;
    match file.try_lock() {
        Ok(()) => {
            // For the message of another one only, so a full disk is no reason not to start.
            let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => bail!(
            "the data folder {shown} (--data) is in use by another broker{}\n  next: stop that broker, or \
             use another folder",
            holder(&file)
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("can't lock {}", path.display()))
        }
    }
}

/// Who holds the lock, as it has written there; nothing for what is no number.
fn holder(lock: &File) -> String {
    /// Longer is no number of a process.
    const MOST_DIGITS: u64 = 10;
    let mut text = String::new();
    match lock.take(MOST_DIGITS).read_to_string(&mut text).map(|_| text.parse::<u32>()) {
        Ok(Ok(pid)) => format!(" (pid {pid})"),
        _ => String::new(),
    }
}

fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let next = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program uses this port; stop it, or use another port (0 picks a free one)"
            }
            ErrorKind::AddrNotAvailable => "this machine has no such address; use one of its own",
            ErrorKind::PermissionDenied => "only root can use ports below 1024; use a higher one",
            _ => "use another address",
        };
        anyhow::Error::new(error).context(format!("can't listen on {address} ({flag}): {next}"))
    })
}

fn poll_with_bell() -> anyhow::Result<(Poll, Waker)> {
    let poll = Poll::new().context("can't create an epoll instance")?;
    let bell = Waker::new(poll.registry(), BELL).context("can't create a waker")?;
    Ok((poll, bell))
}
