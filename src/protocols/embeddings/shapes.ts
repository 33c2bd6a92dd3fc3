/** The shapes in which clients ask for embeddings, by the name of their route. */
import type { EmbeddingsShape } from '../../core/embeddings.ts'
import { batchEmbedContents, embedContent, predict } from './google-shapes.ts'
import { openaiShape } from './openai.ts'

export const embeddingsShapes = {
  embeddings: openaiShape,
  embedContent,
  batchEmbedContents,
  predict,
} as const satisfies { readonly [route: string]: EmbeddingsShape }
