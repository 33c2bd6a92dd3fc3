/** Each upstream format, with the provider configuration that selects it. */
export const FORMATS = {
  chat: { styles: ['chat'], path: '/v1' },
  responses: { styles: ['responses'], path: '/v1' },
  messages: { styles: ['messages'], path: '/v1' },
  anthropic: { kind: 'anthropic', path: '' },
  gemini: { kind: 'gemini', path: '/v1beta' },
  cohere: { kind: 'cohere', path: '/v2' },
  mistral: { kind: 'mistral', path: '/v1' },
  ollama: { kind: 'ollama', path: '' },
  bedrock: { kind: 'bedrock', path: '' },
} as const
export const FORMAT_NAMES = Object.keys(FORMATS) as readonly (keyof typeof FORMATS)[]
