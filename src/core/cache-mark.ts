/** How a request marks the end of a prompt prefix to cache: Anthropic's member of a block, or OpenAI's. */
export type CacheMark = 'cache_control' | 'prompt_cache_breakpoint'
