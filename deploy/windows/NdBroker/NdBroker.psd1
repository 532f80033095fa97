# SPDX-License-Identifier: Apache-2.0
@{
    RootModule        = 'NdBroker.psm1'
    ModuleVersion     = '0.1.0'
    GUID              = '6d8f3f0b-3e52-4d1a-9c7e-5f4b2f0a7c15'
    Description       = 'Objects of PowerShell from the answers of ndctl'
    PowerShellVersion = '5.1'
    FunctionsToExport = @(
        'Invoke-Ndctl', 'Get-NdbStatus', 'Get-NdbHistory', 'Get-NdbAdapter', 'Get-NdbConnection', 'Get-NdbEndpoint',
        'Get-NdbListener', 'Get-NdbMemoryRegion', 'Get-NdbPort', 'Get-NdbQueuePair', 'Get-NdbSession',
        'Stop-NdbConnection', 'Enable-NdbAdapter', 'Disable-NdbAdapter')
    CmdletsToExport   = @()
    AliasesToExport   = @()
    VariablesToExport = @()
}
