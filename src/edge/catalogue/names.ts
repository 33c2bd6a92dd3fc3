/** What the sources of the catalogue call the providers, where that is neither their name here nor an alias. */
import { findProvider, type Providers } from '../load-providers.ts'

const CALLED: { readonly [theirs: string]: string } = {
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
}

/** From a source's name of a provider to the name its facts are kept under here. Local servers have only their own list. */
export const sourceNames =
  (providers: Providers) =>
  (theirs: string): string | undefined => {
    const known = findProvider(providers, CALLED[theirs] ?? theirs)
    if (!known || known.keyless || known.builtin || known.generic) return undefined
    return known.catalogue ?? known.name
  }

/** Of some providers only what the endpoint that is spoken to here serves: nothing shall be taken to have the rest. */
const SERVED: { readonly [provider: string]: RegExp } = {
  // Its other interface (agents) has models of everybody; the older names are gone.
  perplexity: /^sonar(?:-pro|-reasoning-pro|-deep-research)?$/,
  // Regions are prices of their own and no names of models; images, speech and rankers come as chat in places.
  bedrock: /^[^/]+$/,
  'azure-openai': /^[^/]+$/,
  // The short names are LiteLLM's.
  fireworks: /^accounts\//,
}

export const served = (provider: string, model: string): boolean => SERVED[provider]?.test(model) ?? true
