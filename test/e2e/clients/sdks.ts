/**
 * Client libraries that tests call the gateway with and that are no dependency of this project, since each brings many packages.
 * `npm run clients -- --install sdks` installs them into `.cache/sdks`; `.ci/run` does so.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parseObject } from '../../../src/core/json.ts'

export const SDKS_FOLDER = join(import.meta.dirname, '..', '..', '..', '.cache', 'sdks')

/** Version 1.30 of Google's SDK is the one in gemini-cli 0.61.0. */
export const SDK_PACKAGES = {
  'genai-3': 'npm:@google/genai@3.1.0',
  'genai-1': 'npm:@google/genai@1.30.0',
  '@ai-sdk/google': '3.0.141',
  '@anthropic-ai/bedrock-sdk': '1.1.3',
  '@anthropic-ai/vertex-sdk': '1.1.3',
} as const
type SdkName = keyof typeof SDK_PACKAGES

/** Whether a folder has these packages in these versions. */
export const areInstalled = (folder: string, packages: Readonly<Record<string, string>>): boolean =>
  Object.entries(packages).every(([name, wanted]) => {
    const file = join(folder, 'node_modules', name, 'package.json')
    return existsSync(file) && wanted.endsWith(String(parseObject(readFileSync(file, 'utf8'))?.version))
  })

/** For the `skip` of a test: false where they are installed, and in CI, where missing ones must fail. */
export const skipSdks: string | false =
  process.env.HEADGATE_CI === '1' || areInstalled(SDKS_FOLDER, SDK_PACKAGES)
    ? false
    : 'not installed; .ci/run installs them, or: npm run clients -- --install sdks'

/** Loads one of them. `T`: the members that the test uses. */
export const loadSdk = <T>(name: SdkName): T =>
  // Their types are not installed here, so tests describe what they use.
  createRequire(join(SDKS_FOLDER, 'package.json'))(name) as T

/** Google's SDK for JavaScript. */
export type GoogleSdk = { readonly GoogleGenAI: new (options: object) => GoogleClient }
export type GoogleClient = {
  readonly models: {
    generateContent(request: object): Promise<GoogleAnswer>
    generateContentStream(request: object): Promise<AsyncIterable<GoogleAnswer>>
  }
}
export type GoogleAnswer = {
  readonly text?: string
  readonly functionCalls?: readonly { readonly id?: string; readonly name?: string; readonly args?: object }[]
  readonly candidates?: readonly {
    readonly finishReason?: string
    readonly content?: { readonly role?: string; readonly parts?: readonly object[] }
  }[]
  readonly usageMetadata?: { readonly promptTokenCount?: number; readonly totalTokenCount?: number }
}
