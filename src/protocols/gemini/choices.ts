import type { UpstreamChoices } from '../../core/protocol.ts'
import { splitList } from '../shared/choices.ts'

/**
 * `candidateCount`: 1 to 8, and with `generateContent` only (Vertex AI, reference of the inference API, 2026-11-23). All
 * candidates are returned, or none because of the prompt (reference of GenerateContentResponse).
 */
export const choices = { most: 8, wholeOnly: true, split: splitList('candidates') } satisfies UpstreamChoices
