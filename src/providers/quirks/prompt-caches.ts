/** How Claude and OpenAI's models keep prompts at all vendors that have them. What differs is whose a cache is, and the page that says so. */
import type { PromptCache } from '../../core/prompt-cache.ts'

/** The day on which the pages were read. */
const READ = '2026-11-28'

type CacheOwner = Pick<PromptCache, 'owner' | 'ownerHeader' | 'source' | 'models'>

/** Claude: kept for five minutes from the request, where it is marked. */
export const claudeCache = (of: CacheOwner): PromptCache => ({
  least: 4_096,
  life: { sure: 240_000, most: 300_000 },
  from: 'request',
  automatic: false,
  ...of,
  read: READ,
})

/** OpenAI's models from GPT-5.6 on. */
const LATER = /(?:^|[/-])gpt-(?:5\.(?:[6-9]|[1-9][0-9])|[6-9])/

/** OpenAI: kept without marks, from GPT-5.6 on for half an hour at least, before for five to ten minutes. */
export const openaiCaches = (of: CacheOwner): readonly PromptCache[] => {
  const all = { least: 1_024, from: 'request', automatic: true, ...of, read: READ } as const
  return [
    { ...all, models: LATER, life: { sure: 1_800_000, most: 3_600_000 } },
    { ...all, life: { sure: 300_000, most: 600_000 } },
  ]
}
