/** The registry of wire formats. */
import type { ClientProtocolName, UpstreamProtocolName } from '../core/chat.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { JsonObject } from '../core/json.ts'
import type { ClientProtocol, Protocol, UpstreamProtocol } from '../core/protocol.ts'
import type { Envelope, ProtocolSupport } from '../core/provider.ts'
import { anthropicMessages, bedrockInvoke } from './anthropic-messages/index.ts'
import { bedrockConverse } from './bedrock-converse/index.ts'
import { cohere } from './cohere/index.ts'
import { gemini } from './gemini/index.ts'
import { mistral } from './mistral/index.ts'
import { decodeChatBody, decodeResponsesBody } from './mixed-body.ts'
import { ollama } from './ollama/index.ts'
import { openaiChat } from './openai-chat/index.ts'
import { openaiCompletions } from './openai-completions/index.ts'
import { openaiResponses } from './openai-responses/index.ts'

// The mapped types make a missing codec a compile error.

/** Formats of both clients and providers. */
export const sharedProtocols: { readonly [name in Protocol['name']]: Protocol } = {
  'openai-chat': { ...openaiChat, decodeRequest: decodeChatBody },
  'openai-responses': {
    ...openaiResponses,
    decodeRequest: decodeResponsesBody,
    counting: { ...openaiResponses.counting, decodeRequest: decodeResponsesBody },
  },
  'anthropic-messages': anthropicMessages,
  gemini,
}

/** Formats of clients. */
export const protocols = {
  ...sharedProtocols,
  'openai-completions': openaiCompletions,
} as const satisfies { readonly [name in ClientProtocolName]: ClientProtocol }

/** Client formats by API style: `chat`, `responses`, `messages`, `completions`. */
export const clientProtocolByStyle: ReadonlyMap<string, ClientProtocol> = new Map(
  Object.values(protocols).map((protocol) => [protocol.style, protocol]),
)

/** Formats of providers. */
export const upstreamProtocols: { readonly [name in UpstreamProtocolName]: UpstreamProtocol } = {
  ...sharedProtocols,
  cohere,
  'bedrock-converse': bedrockConverse,
  mistral,
  ollama,
}

const inEnvelope: { readonly [name in Envelope]: UpstreamProtocol } = { 'bedrock-invoke': bedrockInvoke }

/** The format of a provider's path. */
export const protocolOf = ({ protocol, envelope }: ProtocolSupport): UpstreamProtocol =>
  envelope ? inEnvelope[envelope] : upstreamProtocols[protocol]

/** The client format that recognises a request without a stated style; chat completions, if none does. */
export const recognised = (body: JsonObject, headers: HeaderLookup): ClientProtocol =>
  Object.values<ClientProtocol>(protocols).find(({ recognises }) => recognises?.(body, headers)) ??
  protocols['openai-chat']

/** The headers besides `authorization` in which clients of any format send their key. */
export const KEY_HEADERS: readonly string[] = [
  ...new Set(Object.values<ClientProtocol>(protocols).flatMap(({ keyHeaders = [] }) => keyHeaders)),
]
