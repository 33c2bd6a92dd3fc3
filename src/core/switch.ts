export const SWITCH_ACTS = ['moved', 'key', 'returned'] as const

/** That a session has changed its target because of a failure, or has come back. Amounts are estimates of the prompt alone. */
export type Switch = {
  /** `key`: another key of the same model, whose cache has another owner. */
  readonly act: (typeof SWITCH_ACTS)[number]
  /** The provider that the session was at before. */
  readonly from: string
  /** Tokens that were cached there and are not at the new target. */
  readonly cold: number
  /** Tokens that the new target has. */
  readonly warm: number
  /** What the prompt costs more than at `from`, in nano-dollars; null: a price is unknown. */
  readonly nano: number | null
}

/** As the ledger has it. `cost`: dollars; null: a price is unknown. */
export type RecordedSwitch = Omit<Switch, 'nano'> & { readonly cost: string | null }

export const SWITCH_HEADER = 'x-headgate-switch'

/** The value of the response header: `moved; from=anthropic; cold=152k; cost=+0.4512`. */
export const switchText = ({ act, from, cold, warm, nano }: Switch): string =>
  [
    act,
    `from=${from}`,
    ...(act === 'returned' ? [`warm=${thousands(warm)}`] : []),
    `cold=${thousands(cold)}`,
    ...(nano === null ? [] : [`cost=${signed(nano)}`]),
  ].join('; ')

const thousands = (tokens: number): string => (tokens < 1_000 ? String(tokens) : `${Math.round(tokens / 1_000)}k`)

const signed = (nano: number): string => `${nano < 0 ? '-' : '+'}${(Math.abs(nano) / 1e9).toFixed(4)}`
