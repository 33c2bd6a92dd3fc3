import type { Sink } from './stage.ts'

/** A body that is passed on as it arrives, and read once. */
export type StreamedBody = {
  /** Bytes, as its sender states them; null: it comes in chunks. */
  readonly length: number | null
  /**
   * Passes the parts on, which the sink may keep. After `push` has returned false none follow until `resume`. `end` has a failure
   * where the body is not complete.
   */
  pipeTo(sink: Sink<Uint8Array>): void
  resume(): void
  /** The rest is not needed. Later calls do nothing. */
  drop(): void
}
