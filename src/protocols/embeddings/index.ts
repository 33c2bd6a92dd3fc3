/** The embeddings formats of providers. */
import type { EmbeddingsProtocol, EmbeddingsProtocolName } from '../../core/embeddings.ts'
import { cohereEmbeddings } from './cohere.ts'
import { geminiEmbeddings } from './gemini.ts'
import { openaiEmbeddings } from './openai.ts'
import { vertexEmbeddings } from './vertex.ts'

export const embeddingsProtocols: { readonly [name in EmbeddingsProtocolName]: EmbeddingsProtocol } = {
  'openai-embeddings': openaiEmbeddings,
  'gemini-embeddings': geminiEmbeddings,
  'vertex-embeddings': vertexEmbeddings,
  'cohere-embeddings': cohereEmbeddings,
}
