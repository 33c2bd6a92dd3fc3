/** Messages between gateways. Plain JSON data. A gateway of another version may send what this one does not know. */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { GatewayState, NamedReply } from '../../core/fleet.ts'
import { parseObject } from '../../core/json.ts'
import type { ProcessNotice } from './notice.ts'

export type FleetMessage =
  /** Sent every few seconds. `state` null: the gateway ends. */
  | { readonly is: 'beat'; readonly state: GatewayState | null }
  /** A query of the admin API to all gateways. `within`: ms. `isKept`: it has an effect, also when it is read late. */
  | {
      readonly is: 'ask'
      readonly id: string
      readonly ask: string
      readonly within: number
      readonly isKept: boolean
    }
  | { readonly is: 'notice'; readonly notice: ProcessNotice }
  | { readonly is: 'answer'; readonly id: string; readonly of: number; readonly replies: readonly NamedReply[] }

/** Bodies longer than this are packed: lists of providers repeat themselves. */
const PACKED = 2_000
/** Bytes of a body that was packed. */
const MOST = 16_777_216

export const encodeMessage = (message: FleetMessage): string => {
  const text = JSON.stringify(message)
  return text.length < PACKED ? text : `z${deflateRawSync(text).toString('base64')}`
}

/** Null: it is not a message of this or a similar version. */
export const decodeMessage = (body: string): FleetMessage | null => {
  try {
    const text = body.startsWith('z')
      ? inflateRawSync(Buffer.from(body.slice(1), 'base64'), { maxOutputLength: MOST }).toString('utf8')
      : body
    const message = parseObject(text)
    // A gateway has written it; the switch over `is` ignores what is unknown.
    return typeof message?.is === 'string' ? (message as unknown as FleetMessage) : null
  } catch {
    return null
  }
}
