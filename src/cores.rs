//! The CPU's cores, shared out among jobs that run side by side.
//!
//! A job's matrix products spread over as many threads as its share has. Sharing one pool instead
//! has every product wait for threads that another job keeps busy.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Pools of threads, one a job that runs at a time.
pub struct Cores {
    shares: Vec<ThreadPool>,
}

impl Cores {
    /// All cores of this process in `num_jobs` equal shares, or in one a core if jobs are more.
    ///
    /// # Errors
    ///
    /// When the system starts no more threads.
    pub fn shared_by(num_jobs: usize) -> Result<Self, ThreadPoolBuildError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let num_shares = num_jobs.clamp(1, cores);
        let share = || {
            ThreadPoolBuilder::new()
                .num_threads(cores / num_shares)
                .thread_name(|index| format!("step-{index}"))
                .build()
        };
        Ok(Self { shares: (0..num_shares).map(|_| share()).collect::<Result<_, _>>()? })
    }

    /// Jobs that run at a time.
    pub fn num_shares(&self) -> usize {
        self.shares.len()
    }

    /// Runs every job, one at a time on each share; results come in the order of the jobs.
    pub fn run<J: Send, R: Send>(
        &self,
        jobs: impl IntoIterator<Item = J>,
        run: impl Fn(J) -> R + Sync,
    ) -> Vec<R> {
        let (run, mut jobs, mut results) = (&run, jobs.into_iter(), Vec::new());
        loop {
            let round: Vec<_> = self.shares.iter().zip(jobs.by_ref()).collect();
            if round.is_empty() {
                return results;
            }
            std::thread::scope(|scope| {
                let running: Vec<_> = round
                    .into_iter()
                    .map(|(share, job)| scope.spawn(move || share.install(|| run(job))))
                    .collect();
                results.extend(running.into_iter().map(|handle| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once_and_results_keep_their_order() {
        for num_jobs in [1, 2, 3, 64] {
            let cores = Cores::shared_by(num_jobs).unwrap();
            for jobs in [0, 1, 2, 7] {
                let squares = cores.run(0..jobs, |job| job * job);
                assert_eq!(squares, (0..jobs).map(|job| job * job).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_job_sees_its_share_of_the_cores() {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = |num_jobs| {
            let cores = Cores::shared_by(num_jobs).unwrap();
            cores.run([()], |()| rayon::current_num_threads())[0]
        };
        assert_eq!(threads(1), all);
        assert_eq!(threads(all), 1);
        assert_eq!(threads(100 * all), 1);
    }
}
