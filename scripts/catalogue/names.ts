/** Maps provider names of the catalogue's sources, if they differ from the names and aliases used here. */

import { findProvider } from '../../src/config/catalogue/load-providers.ts'
import type { Providers } from '../../src/core/provider.ts'

const SOURCE_NAMES: { readonly [theirs: string]: string } = {
  together_ai: 'together',
  fireworks_ai: 'fireworks',
  'fireworks-ai': 'fireworks',
  cohere_chat: 'cohere',
  azure: 'azure-openai',
  bedrock_converse: 'bedrock',
  vercel_ai_gateway: 'vercel',
  cloudflare: 'workers-ai',
  'cloudflare-workers-ai': 'workers-ai',
  nvidia_nim: 'nvidia',
  github: 'github-models',
  'x-ai': 'xai',
  moonshotai: 'moonshot',
  jina_ai: 'jina',
}

/** Maps a source's provider name to the catalogue's; undefined for unknown providers and local servers. */
export const sourceNames =
  (providers: Providers) =>
  (theirs: string): string | undefined => {
    const known = findProvider(providers, SOURCE_NAMES[theirs] ?? theirs)
    if (!known || known.keyless || known.builtin || known.generic) return undefined
    return known.catalogue ?? known.name
  }

/** Filters for providers whose sources also list models of other endpoints. */
const SERVED: { readonly [provider: string]: RegExp } = {
  // Perplexity's agents API serves models of other vendors; older names were removed.
  perplexity: /^sonar(?:-pro|-reasoning-pro|-deep-research)?$/,
  // Names with a region differ in price only. Some image, speech and reranking models are listed as chat models.
  bedrock: /^(?!.*embed)[^/]+$/,
  'azure-openai': /^[^/]+$/,
  // Short names exist in LiteLLM only.
  fireworks: /^accounts\//,
}

/** Whether the provider's endpoint serves this model. */
export const served = (provider: string, model: string): boolean => SERVED[provider]?.test(model) ?? true
