/** Verifies signatures of tokens by `jose`, which is loaded with the first token. */
import type { CryptoKey } from 'jose'
import type { TokenAlgorithm } from '../core/token-rule.ts'
import type { PublicKey } from '../policy/identity/choose-key.ts'

/** A key that was imported for an algorithm; null: it cannot be used with it, such as RSA below 2,048 bits. */
const imported = new WeakMap<PublicKey, Map<TokenAlgorithm, Promise<CryptoKey | null>>>()

const cryptoKey = (key: PublicKey, algorithm: TokenAlgorithm): Promise<CryptoKey | null> => {
  const known = imported.get(key) ?? new Map<TokenAlgorithm, Promise<CryptoKey | null>>()
  imported.set(key, known)
  const found = known.get(algorithm) ?? importKey(key, algorithm)
  known.set(algorithm, found)
  return found
}

const importKey = async ({ jwk }: PublicKey, algorithm: TokenAlgorithm): Promise<CryptoKey | null> => {
  const { importJWK } = await import('jose')
  try {
    const key = await importJWK({ ...jwk }, algorithm)
    return key instanceof Uint8Array ? null : key
  } catch {
    return null
  }
}

/** Whether the key has signed the token with this algorithm. */
export const isSigned = async (token: string, key: PublicKey, algorithm: TokenAlgorithm): Promise<boolean> => {
  const { compactVerify } = await import('jose')
  const own = await cryptoKey(key, algorithm)
  if (!own) return false
  try {
    await compactVerify(token, own, { algorithms: algorithm === 'EdDSA' ? ['EdDSA', 'Ed25519'] : [algorithm] })
    return true
  } catch {
    return false
  }
}
