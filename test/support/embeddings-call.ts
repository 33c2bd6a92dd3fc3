/** Calls of embeddings in tests. */
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { openaiShape } from '../../src/protocols/embeddings/openai.ts'
import type { embeddingsShapes } from '../../src/protocols/embeddings/shapes.ts'
import { protocols } from '../../src/protocols/index.ts'

/** As the route of OpenAI's shape serves them. */
export const openaiEmbeddingsCall = (received: IncomingRequest, responseWriter: ResponseWriter) => ({
  shape: openaiShape,
  protocol: protocols['openai-chat'],
  received,
  responseWriter,
})

/** The smallest body of each shape. */
export const EMBEDDINGS_BODIES = {
  embeddings: (model, text) => ({ model, input: text }),
  embedContent: (model, text) => ({ model, content: { parts: [{ text }] } }),
  batchEmbedContents: (model, text) => ({ model, requests: [{ content: { parts: [{ text }] } }] }),
  predict: (model, text) => ({ model, instances: [{ content: text }] }),
} as const satisfies { readonly [route in keyof typeof embeddingsShapes]: (model: string, text: string) => JsonObject }
