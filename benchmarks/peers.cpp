// Peers in C++ of the simulators of TABS and of delayed-off: one tree of programs for five ways to simulate them.
//
//   peers METHOD SERVERS REPLICATIONS HORIZON     METHOD: heap | lists | direct | blocks | queue_direct | queue_blocks
//
// heap    one object per server, future events in a binary heap, outdated ones skipped by a stamp
// lists   one object per server in lists by kind, from which events draw a member (Gillespie); nothing is searched
// direct  counts of servers only, an exponential time (ziggurat) and a uniform number per event
// blocks  counts of servers only, uniformised: one Gamma time per block, one uniform number per event
// queue_* the same two for one central queue with delayed-off, setups that are aborted
//
// lambda = .3, mu = nu = .1, B = 20, start with lambda N busy servers and the rest off (queue: the same). A line per
// replication: CPU seconds, events, arrivals, tasks met by arrivals that wait (queue: integral of waiting tasks),
// integrals of busy, idle-on, setup.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>
#include <random>
#include <vector>

static const double LAMBDA = 0.3, MU = 0.1, NU = 0.1;
static const int B = 20;

struct Rng {  // xoshiro256++
  uint64_t s[4];
  explicit Rng(uint64_t seed) {
    for (auto& word : s) {
      uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      word = z ^ (z >> 31);
    }
  }
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~0ULL; }
  static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t operator()() {
    uint64_t draw = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t; s[3] = rotl(s[3], 45);
    return draw;
  }
  double uniform() { return ((*this)() >> 11) * 0x1p-53; }
  uint64_t below(uint64_t n) { return (uint64_t)(((unsigned __int128)(*this)() * n) >> 64); }
  double exponential() {  // ziggurat of 256 layers (Marsaglia and Tsang, J. Stat. Software 5(8), 2000)
    static const struct Tables {
      double x[257], f[257];
      Tables() {
        const double r = 7.69711747013104972, v = 0.0039496598225815571993;
        x[256] = v / std::exp(-r); x[255] = r; x[0] = 0;
        for (int i = 254; i > 0; i--) x[i] = -std::log(std::exp(-x[i + 1]) + v / x[i + 1]);
        for (int i = 0; i < 257; i++) f[i] = std::exp(-x[i]);
      }
    } tables;
    double shift = 0;
    for (;;) {
      uint64_t draw = (*this)();
      int i = 1 + (int)(draw & 255);
      double value = (draw >> 11) * 0x1p-53 * tables.x[i];
      if (value < tables.x[i - 1]) return shift + value;
      if (i == 256) { shift += tables.x[255]; continue; }
      if (tables.f[i] + uniform() * (tables.f[i - 1] - tables.f[i]) < std::exp(-value)) return shift + value;
    }
  }
};

struct Totals { int64_t arrivals = 0; double events = 0, found = 0, busy = 0, idle = 0, setup = 0; };

static Totals heap(int n, double horizon, Rng& rng) {
  struct Event { double time; int server, kind, stamp; bool operator<(const Event& o) const { return time > o.time; } };
  enum { DEPART, STANDBY, READY };
  struct List { std::vector<int> at, items; void add(int s) { at[s] = (int)items.size(); items.push_back(s); }
    void drop(int s) { int last = items.back(); items[at[s]] = last; at[last] = at[s]; items.pop_back(); } };
  List busy, idle, off;
  busy.at.resize(n); idle.at.resize(n); off.at.resize(n);
  std::vector<int> tasks(n, 0), stamp(n, 0);
  std::priority_queue<Event> events;
  Totals total;
  int setups = 0;
  double t = 0, next = rng.exponential() / (LAMBDA * n);
  auto plan = [&](int s, int kind, double rate) { events.push({t + rng.exponential() / rate, s, kind, ++stamp[s]}); };
  for (int s = 0; s < n; s++)
    if (s < (int)std::lround(LAMBDA * n)) { busy.add(s); tasks[s] = 1; plan(s, DEPART, 1); } else off.add(s);
  for (;;) {
    while (!events.empty() && events.top().stamp != stamp[events.top().server]) events.pop();
    bool arrival = events.empty() || next < events.top().time;
    double then = std::min(arrival ? next : events.top().time, horizon);
    total.busy += (then - t) * busy.items.size(); total.idle += (then - t) * idle.items.size();
    total.setup += (then - t) * setups;
    t = then;
    if (t >= horizon) return total;
    total.events++;
    if (arrival) {
      next = t + rng.exponential() / (LAMBDA * n);
      total.arrivals++;
      if (!idle.items.empty()) {
        int s = idle.items[rng.below(idle.items.size())];
        idle.drop(s); busy.add(s); tasks[s] = 1; plan(s, DEPART, 1);
        continue;
      }
      if (!busy.items.empty()) {
        int s = busy.items[rng.below(busy.items.size())];
        if (tasks[s] < B) total.found += tasks[s]++;
      }
      if (!off.items.empty()) { int s = off.items.back(); off.drop(s); setups++; plan(s, READY, NU); }
      continue;
    }
    Event e = events.top();
    events.pop();
    int s = e.server;
    if (e.kind == DEPART) {
      if (--tasks[s] > 0) plan(s, DEPART, 1); else { busy.drop(s); idle.add(s); plan(s, STANDBY, MU); }
    } else if (e.kind == STANDBY) { idle.drop(s); off.add(s); stamp[s]++; }
    else { setups--; idle.add(s); plan(s, STANDBY, MU); }
  }
}

static Totals lists(int n, double horizon, Rng& rng) {
  std::vector<int> busy;  // a server is its number of tasks; idle-on, off and in setup they are all alike
  double t = 0;
  Totals total;
  busy.assign(std::lround(LAMBDA * n), 1);
  busy.reserve(n);
  int idle = 0, setup = 0, off = n - (int)busy.size();
  for (;;) {
    double a = LAMBDA * n, b = a + busy.size(), c = b + MU * idle, rate = c + NU * setup;
    double then = std::min(t + rng.exponential() / rate, horizon);
    total.busy += (then - t) * busy.size(); total.idle += (then - t) * idle; total.setup += (then - t) * setup;
    t = then;
    if (t >= horizon) return total;
    total.events++;
    double x = rng.uniform() * rate;
    if (x < a) {
      total.arrivals++;
      if (idle > 0) { idle--; busy.push_back(1); continue; }
      if (!busy.empty()) { int& tasks = busy[rng.below(busy.size())]; if (tasks < B) total.found += tasks++; }
      if (off > 0) { off--; setup++; }
    } else if (x < b) {
      int& tasks = busy[rng.below(busy.size())];
      if (--tasks == 0) { tasks = busy.back(); busy.pop_back(); idle++; }
    } else if (x < c) { idle--; off++; }
    else { setup--; idle++; }
  }
}

// Servers with at least i tasks, idle-on, off, in setup; what an event at x on the scale of the rates does.
struct Counts {
  int64_t q[B + 2] = {}, idle = 0, off = 0, setup = 0;
  double lambda;
  explicit Counts(int n) : lambda(LAMBDA * n) { q[1] = std::lround(lambda); off = n - q[1]; }
  double rate() const { return lambda + q[1] + MU * idle + NU * setup; }
  bool happen(double x, Totals& total) {
    if ((idle > 0) & (x < lambda + (q[1] - q[2]))) {  // without a branch between arrivals and departures from one task
      int64_t up = x < lambda;
      total.arrivals += up;
      q[1] += 2 * up - 1;
      idle += 1 - 2 * up;
      return true;
    }
    if (x < lambda) {
      total.arrivals++;
      if (q[1] > 0) {
        double rank = x / lambda * q[1];
        int i = 1;
        while (rank < q[i + 1]) i++;
        if (i < B) { q[i + 1]++; total.found += i; }
      }
      if (off > 0) { off--; setup++; }
      return true;
    }
    x -= lambda + (q[1] - q[2]);
    if (x < 0) { q[1]--; idle++; return true; }
    if (x < q[2]) {
      int i = 2;
      while (x < q[i + 1]) i++;
      q[i]--;
      return true;
    }
    x -= q[2];
    if (x < MU * idle) { idle--; off++; return true; }
    x -= MU * idle;
    if (x < NU * setup) { setup--; idle++; return true; }
    return false;
  }
  void count(double span, Totals& total) const {
    total.busy += span * q[1]; total.idle += span * idle; total.setup += span * setup;
  }
  void add(int64_t* sums) const { sums[0] += q[1]; sums[1] += idle; sums[2] += setup; }
};

struct Queue {  // on, tasks: setups = min(waiting, off)
  int64_t n, on, tasks;
  double lambda;
  explicit Queue(int servers) : n(servers), on(std::lround(LAMBDA * servers)), tasks(on), lambda(LAMBDA * servers) {}
  int64_t setups() const { return std::min(std::max(tasks - on, (int64_t)0), n - on); }
  double rate() const {
    return lambda + std::min(on, tasks) + MU * std::max(on - tasks, (int64_t)0) + NU * setups();
  }
  bool happen(double x, Totals& total) {
    int64_t busy = std::min(on, tasks);
    if (x < lambda + busy) {
      bool up = x < lambda;
      tasks += 2 * up - 1;
      total.arrivals += up;
      return true;
    }
    x -= lambda + busy;
    double standby = MU * (on - busy);
    if (x < standby) { on--; return true; }
    if (x - standby < NU * setups()) { on++; return true; }
    return false;
  }
  void count(double span, Totals& total) const {
    int64_t busy = std::min(on, tasks);
    total.busy += span * busy; total.idle += span * (on - busy); total.setup += span * setups();
    total.found += span * (tasks - busy);
  }
  void add(int64_t* sums) const {
    int64_t busy = std::min(on, tasks);
    sums[0] += busy; sums[1] += on - busy; sums[2] += setups(); sums[3] += tasks - busy;
  }
};

template <class State> static Totals direct(int n, double horizon, Rng& rng) {
  State state(n);
  Totals total;
  for (double t = 0;;) {
    double rate = state.rate(), then = std::min(t + rng.exponential() / rate, horizon);
    state.count(then - t, total);
    t = then;
    if (t >= horizon) return total;
    total.events += state.happen(rng.uniform() * rate, total);
  }
}

template <class State> static Totals blocks(int n, double horizon, Rng& rng) {
  State state(n);
  Totals total;
  for (double t = 0; t < horizon;) {
    double rate = state.rate();
    int m = std::clamp((int)(3 * std::sqrt(rate)), 16, 4096);
    double bound = rate + m * 0.9;  // an event adds at most 1 - mu to the rate
    double length = std::gamma_distribution<double>(m, 1 / bound)(rng);
    int events = m, intervals = m;
    if (t + length >= horizon) {
      events = std::binomial_distribution<int>(m - 1, (horizon - t) / length)(rng);
      intervals = events + 1;
      length = horizon - t;
    }
    double span = length / intervals;
    int64_t sums[4] = {}, happened = 0;
    for (int k = 0; k < events; k++) {
      state.add(sums);
      happened += state.happen(rng.uniform() * bound, total);
    }
    if (intervals > events) state.add(sums);
    total.busy += span * sums[0]; total.idle += span * sums[1]; total.setup += span * sums[2];
    total.found += span * sums[3];
    total.events += happened;
    t += length;
  }
  return total;
}

static double cpu() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  int n = std::atoi(argv[2]), replications = std::atoi(argv[3]);
  double horizon = std::atof(argv[4]);
  for (int r = 0; r < replications; r++) {
    Rng rng(1000003ULL * n + r);
    Totals (*run)(int, double, Rng&) = !std::strcmp(argv[1], "heap") ? heap
        : !std::strcmp(argv[1], "lists") ? lists
        : !std::strcmp(argv[1], "direct") ? direct<Counts>
        : !std::strcmp(argv[1], "blocks") ? blocks<Counts>
        : !std::strcmp(argv[1], "queue_direct") ? direct<Queue>
        : !std::strcmp(argv[1], "queue_blocks") ? blocks<Queue> : nullptr;
    if (run == nullptr) return 2;
    double start = cpu();
    Totals x = run(n, horizon, rng);
    double seconds = cpu() - start;
    std::printf("%.9g %.17g %.17g %.17g %.17g %.17g %.17g\n", seconds, x.events, (double)x.arrivals, x.found, x.busy, x.idle, x.setup);
  }
}
