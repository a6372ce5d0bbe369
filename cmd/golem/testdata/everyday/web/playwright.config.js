module.exports = {
  testDir: 'tests',
  reporter: 'line',
  use: {
    baseURL: 'http://127.0.0.1:3000',
    launchOptions: { executablePath: '/usr/bin/chromium' },
  },
  webServer: { command: 'node server.js', url: 'http://127.0.0.1:3000' },
};
