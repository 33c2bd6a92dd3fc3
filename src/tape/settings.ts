/** The settings of tapes, from `HEADGATE_TAPE` and the variables that begin so. */
import type { UpstreamCall } from '../core/world.ts'
import type { Normaliser } from './masking.ts'

export type TapeSettings = {
  readonly mode: 'record' | 'replay' | 'strict'
  readonly folder: string
  /** The tape of requests that name none. */
  readonly name: string
  readonly pace: number
  readonly normalise: readonly Normaliser[]
  readonly match: 'request' | 'target'
  /** Answers with errors are recorded too. */
  readonly keepsFailures: boolean
}

/** The key of providers that have none: calls with it are never sent. */
export const NO_KEY = 'headgate-tape-without-key'

export const lacksKey = ({ headers, url }: Pick<UpstreamCall, 'headers' | 'url'>): boolean =>
  [url, ...Object.values(headers)].some((value) => value.includes(NO_KEY))
