const { test, expect } = require('@playwright/test');

test('the page has a title', async ({ page }) => {
  await page.goto('/');
  await expect(page).toHaveTitle('Shop');
});

test('an order is kept in the database', async ({ page }) => {
  await page.goto('/');
  await page.getByLabel('Item').fill('a <lamp>');
  await page.getByRole('button', { name: 'Order' }).click();
  await expect(page.getByRole('listitem').last()).toHaveText('a <lamp>');
  await page.reload();
  await expect(page.getByRole('listitem').last()).toHaveText('a <lamp>');
  await page.screenshot({ path: 'shop.png' });
});
