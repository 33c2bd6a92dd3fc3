/** The part of `oidc-provider` that tests use. The package has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'

  type Prompt = { readonly name: string; readonly details: Readonly<Record<string, readonly string[] | undefined>> }
  type Interaction = {
    readonly uid: string
    readonly prompt: Prompt
    readonly params: Readonly<Record<string, string>>
    readonly session?: { readonly accountId: string }
  }
  class Grant {
    constructor(of: { readonly accountId: string; readonly clientId: string })
    addOIDCScope(scope: string): void
    save(): Promise<string>
  }
  export class Provider {
    constructor(issuer: string, configuration: object)
    readonly Grant: typeof Grant
    proxy: boolean
    callback(): RequestListener
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>
    interactionResult(request: IncomingMessage, response: ServerResponse, result: object): Promise<string>
    on(event: string, run: (...values: readonly unknown[]) => void): void
  }
}
