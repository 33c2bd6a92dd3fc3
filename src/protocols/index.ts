/** The wire formats we speak. */
import type { ClientProtocolName, ProtocolName } from '../core/chat.ts'
import type { Protocol, UpstreamProtocol } from '../core/protocol.ts'
import { anthropicMessages } from './anthropic-messages/index.ts'
import { gemini } from './gemini/index.ts'
import { openaiChat } from './openai-chat/index.ts'
import { openaiResponses } from './openai-responses/index.ts'

/** One of each: a format without its codec is a compile error. */
const CLIENT: { readonly [name in ClientProtocolName]: Protocol } = {
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  'anthropic-messages': anthropicMessages,
}
const UPSTREAM: { readonly [name in ProtocolName]: UpstreamProtocol } = { ...CLIENT, gemini }

/** The formats clients may speak, by the name the code knows a format by. */
export const protocols: ReadonlyMap<ProtocolName, Protocol> = new Map(
  Object.values(CLIENT).map((protocol) => [protocol.name, protocol]),
)

/** The same by the name people write: `chat`, `responses`, `messages`. */
export const byStyle: ReadonlyMap<string, Protocol> = new Map(
  Object.values(CLIENT).map((protocol) => [protocol.style, protocol]),
)

/** The formats providers may speak. */
export const upstreamProtocols: ReadonlyMap<ProtocolName, UpstreamProtocol> = new Map(
  Object.values(UPSTREAM).map((protocol) => [protocol.name, protocol]),
)
