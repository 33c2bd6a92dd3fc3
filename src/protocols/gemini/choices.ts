import type { UpstreamChoices } from '../../core/protocol.ts'
import { splitList } from '../shared/choices.ts'

/**
 * `candidateCount`: 1 to 8, and only without streaming (Vertex AI, reference of the inference API, 2026-11-23). Either all
 * candidates are returned, or none because the prompt is blocked (reference of GenerateContentResponse).
 */
export const choices = { most: 8, wholeOnly: true, split: splitList('candidates') } satisfies UpstreamChoices
