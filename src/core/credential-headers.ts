/** Headers with credentials or addresses of clients, in lower case: never shown, kept or forwarded. */

/** In these a client presents a key of the gateway, or a browser the session of the dashboard. */
export const GATEWAY_CREDENTIAL_HEADERS: readonly string[] = [
  ...['authorization', 'cookie', 'x-api-key', 'api-key', 'x-goog-api-key', 'x-headgate-csrf'],
]

/** All known ones, those of proxies and of other servers included. */
export const CREDENTIAL_HEADERS: readonly string[] = [
  ...GATEWAY_CREDENTIAL_HEADERS,
  ...['proxy-authorization', 'set-cookie', 'x-auth-token', 'x-amz-security-token'],
]

/** In these a proxy names the client; `x-forwarded-` begins the names of more. */
export const CLIENT_ADDRESS_HEADERS: readonly string[] = ['forwarded', 'x-forwarded-for', 'x-real-ip']
