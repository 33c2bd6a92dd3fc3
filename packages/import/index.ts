/** Reads configurations of other gateways. Pure: texts in, configuration out. */
export { type Imported, yamlText } from './imported.ts'
export { importLitellm } from './litellm.ts'
export { importOpenrouter, type KnownProviders } from './openrouter.ts'
export { importPortkey } from './portkey.ts'
export { type ImportSource, parseSource } from './source.ts'
