/**
 * Settings of V8 that a running process can change. `HEAP_TUNING=off` disables them, save while the program is loaded.
 *
 * The young generation grows to 128 MB by default, since objects of open streams survive a collection: an idle stream then
 * takes 33 KB resident instead of 14 (4,000 streams, bench/RESULTS.md). Half of it costs nothing. A quarter makes bursts
 * 15 % slower, so it is used only while many requests are in flight. The flag for the size only works before V8 starts. The
 * growth factor is read for each growth, so it is changed instead.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Maximum bytes of both semi-spaces: with few requests in flight, and with many. */
export const YOUNG_GENERATION_LIMIT = { few: 64 * 1024 * 1024, many: 32 * 1024 * 1024 } as const

/** Requests in flight from which the lower limit applies. */
const MANY = 500

/** ms between checks; doubling takes longer than that, even under full load. */
const CHECK_INTERVAL = 100

/** Whether V8 may make the young generation larger from now on. */
export const letYoungGenerationGrow = (growth: boolean): void =>
  setFlagsFromString(growth ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1')

/**
 * Starts the checks; returns how to stop them, after which V8 may grow it again. Growth within one long event loop turn is
 * not reverted.
 */
export const limitYoungGeneration = (inFlight: () => number): (() => void) => {
  let grows = true
  const allow = (growth: boolean) => {
    if (growth === grows) return
    grows = growth
    letYoungGenerationGrow(growth)
  }
  const check = () => {
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
    // V8 shrinks it while little is allocated; then it may grow again.
    allow((young?.space_size ?? 0) < (inFlight() < MANY ? YOUNG_GENERATION_LIMIT.few : YOUNG_GENERATION_LIMIT.many))
  }
  const timer = setInterval(check, CHECK_INTERVAL).unref()
  return () => {
    clearInterval(timer)
    allow(true)
  }
}

/** Sets what V8 collects, compiles and inlines. Called once, before a gateway serves. */
export const tuneEngine = (): void => {
  // While a process is idle V8 collects garbage twice with the aim to return memory. Such a collection drops every shape that no
  // object has at that moment, among them those of requests: the optimised code for them is discarded, and the first 12,000
  // requests after the pause cost twice as much.
  setFlagsFromString('--no-memory-reducer-favors-memory')
  // By default a thread frees the memory of compilations once no function waits to be compiled. Under the first load hundreds wait,
  // so up to 70 MB are in use, and the allocator keeps them for good. So each is freed when its code is ready.
  setFlagsFromString('--no-maglev-destroy-on-background')
  // V8 inlines at most 920 bytes of bytecode into a function, and no function of more than 460, so that a request, which passes
  // through a few hundred functions, is mostly calls. Four times as much saves 8 % of the main thread.
  setFlagsFromString('--max-inlined-bytecode-size=800')
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=4000')
}
