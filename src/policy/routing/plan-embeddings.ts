/** Where a request for embeddings may go: vectors of different models cannot be compared. */
import { draftFor } from './plan-ability.ts'

/** Plans a request for embeddings by its model name. */
export const draftEmbeddings = draftFor({
  name: 'embeddings',
  modelsOf: ({ embeds }) => embeds?.models,
  isName: (model) => /embed/i.test(model),
  remedy:
    'Add one that does, such as OPENAI_API_KEY, MISTRAL_API_KEY, GEMINI_API_KEY, COHERE_API_KEY or OLLAMA_BASE_URL.',
})
