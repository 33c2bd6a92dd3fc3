/** A deterministic world for tests: time moves only on request, randomness is seeded, upstreams are scripts. */

import { textOf, wholeBody } from '../../src/core/encoded-text.ts'
import type { Failure } from '../../src/core/failure.ts'
import type { HeaderLookup } from '../../src/core/headers.ts'
import type { Cancel, UpstreamCall, UpstreamListener, World } from '../../src/core/world.ts'

export type ScriptedCall = Omit<UpstreamCall, 'body'> & {
  readonly body?: string
  readonly at: number
  readonly listener: UpstreamListener
  aborted: boolean
  resumed: number
  head(status: number, headers?: Readonly<Record<string, string>>): void
  /**
   * Sends text as one chunk of bytes, which are overwritten afterwards, as a socket's read buffer is. Returns whether
   * the reader wants more.
   */
  send(text: string): boolean
  sendBytes(bytes: Buffer): boolean
  end(): void
  fail(failure: Failure): void
}

export type StillWorld = World & {
  /** All upstream calls, in order. */
  readonly calls: ScriptedCall[]
  /** Advances time, runs due timers in order, and lets promises settle. */
  advance(ms: number): Promise<void>
  /** Lets promises settle without advancing time. */
  settle(): Promise<void>
  readonly timers: () => number
}

/** `working`: work outside of it that ends before time moves, such as that of a server; null: there is none. */
export const stillWorld = (
  script: (request: ScriptedCall) => void = () => {},
  seed = 1,
  working: () => Promise<unknown> | null = () => null,
): StillWorld => {
  let now = 1_000
  let order = 0
  let state = seed
  const timers = new Map<number, { readonly at: number; readonly run: () => void }>()
  const calls: ScriptedCall[] = []
  const settle = async () => {
    do for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    while (await working()?.then(() => true))
  }
  const next = (until: number) =>
    [...timers.entries()].filter(([, { at }]) => at <= until).sort(([a, x], [b, y]) => x.at - y.at || a - b)[0]
  return {
    calls,
    settle,
    timers: () => timers.size,
    now: () => now,
    date: () => 1_800_000_000_000 + now,
    // Park and Miller's generator: sufficient for tests and reproducible.
    random: () => {
      state = (state * 48_271) % 2_147_483_647
      return state / 2_147_483_647
    },
    later: (ms, run): Cancel => {
      const id = order++
      timers.set(id, { at: now + ms, run })
      return () => timers.delete(id)
    },
    turn: (run) => {
      timers.set(order++, { at: now, run })
    },
    dial: (call, listener) => {
      const { body, ...members } = call
      const request: ScriptedCall = {
        ...members,
        ...(body !== undefined && { body: textOf(wholeBody(body)) }),
        at: now,
        listener,
        aborted: false,
        resumed: 0,
        head(status, headers = {}) {
          const lookup: HeaderLookup = (name) => headers[name]
          if (!this.aborted) listener.onHeaders(status, lookup)
        },
        send(text) {
          return this.sendBytes(Buffer.from(text))
        },
        sendBytes(bytes) {
          if (this.aborted) return false
          try {
            return listener.onBody(bytes)
          } finally {
            bytes.fill('x')
          }
        },
        end() {
          if (!this.aborted) listener.onEnd()
        },
        fail(failure) {
          if (!this.aborted) listener.onFailure(failure)
        },
      }
      calls.push(request)
      queueMicrotask(() => {
        if (!request.aborted) script(request)
      })
      return {
        abort: () => {
          request.aborted = true
        },
        resume: () => {
          request.resumed++
        },
      }
    },
    advance: async (ms) => {
      const until = now + ms
      await settle()
      for (let due = next(until); due; due = next(until)) {
        const [id, { at, run }] = due
        timers.delete(id)
        now = Math.max(now, at)
        run()
        await settle()
      }
      now = until
      await settle()
    },
  }
}
