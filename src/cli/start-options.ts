/** The options of `start`. Each sets a variable for this process. */
export const START_OPTIONS = [
  { flag: '--port', value: '<port>', env: 'PORT', about: 'port to listen on; 0 picks a free one' },
  { flag: '--host', value: '<address>', env: 'HOST', about: 'address to listen on' },
  { flag: '--config', value: '<file>', env: 'HEADGATE_CONFIG', about: 'configuration file instead of headgate.yaml' },
  { flag: '--workers', value: '<count>', env: 'WORKERS', about: 'processes that serve the port' },
] as const
