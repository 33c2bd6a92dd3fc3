/** Facts about models that no source of the catalogue has. Each states where it is published. */
import type { Entry } from '../../src/config/catalogue/catalogue.ts'

type Addition = {
  readonly provider: string
  readonly models: RegExp
  readonly service?: Entry['service']
  readonly tools?: Entry['tools']
  readonly seen: string
}

const ADDITIONS: readonly Addition[] = [
  {
    provider: 'anthropic',
    models: /^claude-opus-4-[67](?:-|$)/,
    service: { fast: 6 },
    seen: 'platform.claude.com/docs/en/build-with-claude/fast-mode: $30 and $150; LiteLLM removed it as it was withdrawn (BerriAI/litellm#38378)',
  },
  {
    provider: 'xai',
    models: /^grok/,
    // The sources of the earlier live search: $25 per thousand.
    tools: {
      web_search: 5_000_000,
      x_search: 5_000_000,
      code_interpreter: 5_000_000,
      file_search: 2_500_000,
      source: 25_000_000,
    },
    seen: 'docs.x.ai/developers/pricing.md (2026-11-26); for sources docs.x.ai/docs/guides/live-search',
  },
]

/** An entry with the facts that its source lacks; what the source has is kept. */
export const withAdditions = (provider: string, model: string, entry: Entry): Entry => {
  let made = entry
  for (const { provider: of, models, service, tools } of ADDITIONS)
    if (of === provider && models.test(model))
      made = {
        ...made,
        ...(service && { service: { ...service, ...made.service } }),
        ...(tools && { tools: { ...tools, ...made.tools } }),
      }
  return made
}
